"""The claim function of 0251, which planned for 150 us by its call alone: it answers columns in place of rows, and only
what a drain asks for. It is told the boards with their versions as the drain has read them (the transaction that wrote
each row), so that they need not be read again; where one has changed, it writes nothing.

Without JIT: up to PostgreSQL 17 what is switched off counts as very dear where it cannot be avoided, and a plan that
seems dear is compiled at each call, for seconds.

A plan that is kept from tables that were nearly empty has to hold for full ones. So nothing is joined with a table and
no `exists` stands here: each row is found by one index condition, and where several indexes have one, by an order that
only the right one gives. A status as a bare condition would let a partial index be read whole, hence `status || ''`.

The one before it stays: processes of the version before still call it.
"""

from django.db import migrations

MAKE = r"""
create function boards_claim_2(
    p_boards bigint[], p_names text[], p_slots int[], p_rooms int[], p_who text[], p_chains jsonb[],
    p_limit int, p_lease_ms bigint, p_claimed_by jsonb, p_words text, p_known bigint[], p_versions text[])
returns table (
    o_attempt_key bigint, o_flow_run bigint, o_bare boolean,
    o_pk boards_task.pk%type, o_board_id boards_task.board_id%type, o_partition boards_task.partition%type,
    o_id boards_task.id%type, o_incarnation_id boards_task.incarnation_id%type,
    o_revision boards_task.revision%type, o_goal boards_task.goal%type, o_title boards_task.title%type,
    o_context boards_task.context%type, o_input boards_task.input%type, o_labels boards_task.labels%type,
    o_metadata boards_task.metadata%type, o_assignee boards_task.assignee%type,
    o_follow_up_of_id boards_task.follow_up_of_id%type, o_filer_id boards_task.filer_id%type,
    o_visit_id boards_task.visit_id%type, o_status boards_task.status%type,
    o_attempts boards_task.attempts%type, o_abandonments boards_task.abandonments%type,
    o_grant_no boards_task.grant_no%type, o_feedback boards_task.feedback%type,
    o_steers boards_task.steers%type, o_lease_duration_ms boards_task.lease_duration_ms%type,
    o_run boards_task.run%type, o_created_at boards_task.created_at%type)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $function$
declare
    v_keys bigint[];
    v_places int[];
    v_again boolean;
    -- As the pages name a task: the title, else the first line of the goal that shows something.
    v_blank constant text := E'\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004'
        || E'\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';
    v_first_line constant text := '[^' || v_blank || E'][^\n\r\x0b\x0c\x1c\x1d\x1e\u0085\u2028\u2029]*';
begin
    perform from unnest(p_known, p_versions) as k(id, version)
      where coalesce((
        select b.xmin::text <> k.version
               or (not b.paused
                   and (b.claim_order = 'priority'
                        or (select t.pk from boards_task t
                             where t.board_id = b.id and t.resume_ready_at <= statement_timestamp()
                             order by t.resume_ready_at limit 1) is not null
                        or (select t.pk from boards_task t
                             where t.board_id = b.id and t.lease_until <= statement_timestamp()
                             order by t.lease_until limit 1) is not null
                        or (select r.id from boards_rosterentry r
                             where r.board_id = b.id and r.max_running is not null limit 1) is not null))
          from boards_board b where b.id = k.id), true);
    if found then
        o_bare := false;
        return next;
        return;
    end if;
    select array_agg(pk order by nth), array_agg(place order by nth), bool_or(again) into v_keys, v_places, v_again
      from (select pk, place, again, nth
              from (select o.*, row_number() over (partition by board_id order by nth) as in_board
                      from (select p.pk, p.again, w.place, w.board_id, w.room, row_number() over () as nth
                              from unnest(p_boards, p_names, p_slots, p_rooms)
                                   with ordinality as w(board_id, name, slots, room, place)
                              join lateral (
                                select t.pk, t.follow_up_of_id is not null or t.attempts > 0 as again
                                  from boards_task t
                                 where t.board_id = w.board_id and t.assignee = w.name
                                   and not (select b.paused from boards_board b where b.id = w.board_id)
                                   and t.status = 'pending' and t.unmet_deps = 0 and t.open_holds = 0
                                   and (t.not_before is null or t.not_before <= statement_timestamp())
                                   and ((t.follow_up_of_id is null and t.attempts = 0)
                                        or ((select f.pk from boards_task f
                                              where f.follow_up_of_id = coalesce(t.follow_up_of_id, t.pk)
                                                and (f.status || '') = 'in_progress' limit 1) is null
                                            and (select r.pk from boards_task r
                                                  where r.pk = t.follow_up_of_id
                                                    and (r.status || '') = 'in_progress') is null))
                                 order by t.created_at, t.pk
                                 limit least(w.slots, p_limit)
                                   for no key update skip locked
                              ) p on true) o) found
             where in_board <= room
             order by nth
             limit p_limit) picked;
    if v_keys is null then
        return;
    end if;
    if v_again then
        o_bare := false;
        return next;
        return;
    end if;
    return query
    with granted as (
        update boards_task t
           set status = 'in_progress', grant_no = t.grant_no + 1, attempts = 1, status_note = '', not_before = null,
               started_at = coalesce(t.started_at, statement_timestamp()),
               lease_duration_ms = coalesce(
                   p_lease_ms, (select b.lease_ms from boards_board b where b.id = t.board_id)),
               lease_until = statement_timestamp() + make_interval(secs => coalesce(
                   p_lease_ms, (select b.lease_ms from boards_board b where b.id = t.board_id)) / 1000.0),
               claimed_by = p_claimed_by,
               run = jsonb_build_object(
                   'session_id', gen_random_uuid(), 'request_id', replace(gen_random_uuid()::text, '-', ''),
                   'attempt', 1),
               resume_ready_at = null, kept_open_by = '', revision = t.revision + 1,
               updated_at = statement_timestamp()
         where t.pk = any(v_keys) and (t.status || '') = 'pending' and t.attempts = 0
     returning array_position(v_keys, t.pk) as nth,
               (select b.space_id from boards_board b where b.id = t.board_id) as space_id,
               (t.run->>'session_id')::uuid as session,
               (select v.run_id from boards_visit v where v.id = t.visit_id) as flow_run,
               nextval('boards_attempt_id_seq') as attempt_key,
               t.pk, t.board_id, t.partition, t.id, t.incarnation_id, t.revision, t.goal, t.title, t.context,
               t.input, t.labels, t.metadata, t.assignee, t.follow_up_of_id, t.filer_id, t.visit_id, t.status,
               t.attempts, t.abandonments, t.grant_no, t.feedback, t.steers, t.lease_duration_ms, t.run,
               t.created_at
    ), opened as (
        insert into boards_attempt
               (id, task_id, number, assignee, claimed_by, session_id, ending, error, steps, spend)
        select g.attempt_key, g.pk, 1, g.assignee, p_claimed_by, g.session, '', '', '{}', '[]'
          from granted g order by g.nth
    ), sessions as (
        insert into boards_session (id, space_id, kind, parent_id, label)
        select g.session, g.space_id, 'task_run', g.filer_id,
               p_who[v_places[g.nth]] || ': ' || coalesce(
                   nullif(g.title, ''),
                   left(rtrim(substring(g.goal from v_first_line), v_blank), 200),
                   g.id)
          from granted g
    ), said as (
        insert into boards_transcriptitem (session_id, task_id, attempt, kind, who, text)
        select g.session, g.pk, 1, 'status', p_who[v_places[g.nth]], p_words
          from granted g order by g.nth
    ), told as (
        insert into boards_event
               (space_id, board_id, task_id, run_id, kind, chain, cause, from_status, to_status, attempt, data)
        select g.space_id, g.board_id, g.pk, g.flow_run, 'task.claimed', p_chains[v_places[g.nth]], '',
               'pending', 'in_progress', 1, '{}'
          from granted g order by g.nth
    )
    select g.attempt_key, g.flow_run,
           (select d.id from boards_taskdep d where d.dependent_id = g.pk limit 1) is null
           and (select h.id from boards_hold h where h.task_id = g.pk limit 1) is null,
           g.pk, g.board_id, g.partition, g.id, g.incarnation_id, g.revision, g.goal, g.title, g.context,
           g.input, g.labels, g.metadata, g.assignee, g.follow_up_of_id, g.filer_id, g.visit_id, g.status,
           g.attempts, g.abandonments, g.grant_no, g.feedback, g.steers, g.lease_duration_ms, g.run,
           g.created_at
      from granted g order by g.nth;
end
$function$
"""
DROP = "drop function boards_claim_2"


class Migration(migrations.Migration):
    dependencies = [
        ("boards", "0252_filed_work"),
    ]

    operations = [
        migrations.RunSQL(MAKE, DROP),
    ]

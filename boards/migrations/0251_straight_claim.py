"""The function behind `boards.tasks.straight_claims`: hands out ordinary rows that are ready and begins their attempts,
or says that anything rarer is there and writes nothing.

A function, because the server keeps the plans of its statements, also behind a pooler; planning them anew takes longer
than running them. A kept plan is made without looking at the values, perhaps while the tables were empty still, so the
settings hold it to the indexes and their order.
"""

from django.db import migrations

MAKE = r"""
create function boards_claim_1(
    p_boards bigint[], p_names text[], p_slots int[], p_rooms int[], p_who text[], p_chains jsonb[],
    p_limit int, p_lease_ms bigint, p_claimed_by jsonb, p_words text)
returns table (o_task boards_task, o_attempt bigint, o_run bigint, o_bare boolean)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $function$
declare
    v_keys bigint[];
    v_again boolean;
    -- As the pages name a task: the title, else the first line of the goal that shows something.
    v_blank constant text := E'\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004'
        || E'\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000';
    v_first_line constant text := '[^' || v_blank || E'][^\n\r\x0b\x0c\x1c\x1d\x1e\u0085\u2028\u2029]*';
begin
    perform from boards_board b
      where b.id = any(p_boards) and not b.paused
        and (b.claim_order = 'priority'
             or exists (select from boards_task t
                         where t.board_id = b.id and t.resume_ready_at <= statement_timestamp())
             or exists (select from boards_task t where t.board_id = b.id and t.lease_until <= statement_timestamp())
             or exists (select from boards_rosterentry r where r.board_id = b.id and r.max_running is not null));
    if found then
        return query select null::boards_task, null::bigint, null::bigint, false;
        return;
    end if;
    select array_agg(pk order by nth), bool_or(again) into v_keys, v_again
      from (select pk, again, nth
              from (select o.*, row_number() over (partition by board_id order by nth) as in_board
                      from (select p.pk, p.again, w.board_id, w.room, row_number() over () as nth
                              from unnest(p_boards, p_names, p_slots, p_rooms) as w(board_id, name, slots, room)
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
                                                and f.status = 'in_progress' limit 1) is null
                                            and (select r.pk from boards_task r
                                                  where r.pk = t.follow_up_of_id
                                                    and r.status = 'in_progress') is null))
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
        return query select null::boards_task, null::bigint, null::bigint, false;
        return;
    end if;
    return query
    with granted as (
        update boards_task t
           set status = 'in_progress', grant_no = t.grant_no + 1, attempts = 1, status_note = '', not_before = null,
               started_at = coalesce(t.started_at, statement_timestamp()),
               lease_duration_ms = coalesce(p_lease_ms, b.lease_ms),
               lease_until = statement_timestamp()
                   + make_interval(secs => coalesce(p_lease_ms, b.lease_ms) / 1000.0),
               claimed_by = p_claimed_by,
               run = jsonb_build_object(
                   'session_id', gen_random_uuid(), 'request_id', replace(gen_random_uuid()::text, '-', ''),
                   'attempt', 1),
               resume_ready_at = null, kept_open_by = '', revision = t.revision + 1,
               updated_at = statement_timestamp()
          from unnest(v_keys) with ordinality as k(pk, nth), boards_board b,
               unnest(p_boards, p_names, p_who, p_chains) as w(board_id, name, who, chain)
         where t.pk = k.pk and t.status = 'pending' and t.attempts = 0
           and b.id = t.board_id and w.board_id = t.board_id and w.name = t.assignee
     returning t as task, t.pk, k.nth, w.who, w.chain, b.space_id, (t.run->>'session_id')::uuid as session,
               (select v.run_id from boards_visit v where v.id = t.visit_id) as run_id
    ), opened as (
        insert into boards_attempt (task_id, number, assignee, claimed_by, session_id, ending, error, steps, spend)
        select g.pk, 1, (g.task).assignee, p_claimed_by, g.session, '', '', '{}', '[]' from granted g order by g.nth
     returning task_id, id
    ), sessions as (
        insert into boards_session (id, space_id, kind, parent_id, label)
        select g.session, g.space_id, 'task_run', (g.task).filer_id,
               g.who || ': ' || coalesce(
                   nullif((g.task).title, ''),
                   left(rtrim(substring((g.task).goal from v_first_line), v_blank), 200),
                   (g.task).id)
          from granted g
    ), said as (
        insert into boards_transcriptitem (session_id, task_id, attempt, kind, who, text)
        select g.session, g.pk, 1, 'status', g.who, p_words from granted g order by g.nth
    ), told as (
        insert into boards_event
               (space_id, board_id, task_id, run_id, kind, chain, cause, from_status, to_status, attempt, data)
        select g.space_id, (g.task).board_id, g.pk, g.run_id, 'task.claimed', g.chain, '', 'pending', 'in_progress', 1,
               '{}'
          from granted g order by g.nth
    )
    select g.task, o.id, g.run_id,
           not exists (select from boards_taskdep d where d.dependent_id = g.pk)
           and not exists (select from boards_hold h where h.task_id = g.pk)
      from granted g join opened o on o.task_id = g.pk order by g.nth;
end
$function$
"""
DROP = "drop function boards_claim_1"


class Migration(migrations.Migration):
    dependencies = [
        ("boards", "0250_straight_filing"),
    ]

    operations = [
        migrations.RunSQL(MAKE, DROP),
    ]

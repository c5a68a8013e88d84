"""The function behind `boards.tasks.straight`: files one ordinary task with its event, or writes nothing.

A function, because the server keeps the plans of its statements, also behind a pooler; planning them anew costs more
than running them. `force_generic_plan`: each finds its rows by a key, so one plan is right for all values. Each of its
statements has a snapshot of its own: what a filing has stored for which a lock waited is seen by the next one.
"""

from django.db import migrations

MAKE = """
create function boards_file_task_1(
    p_board bigint, p_partition text, p_partition_by text, p_most_total bigint, p_most_enqueued bigint,
    p_checker_on_roster text, p_goals int, p_twins text, p_chain jsonb,
    p_incarnation uuid, p_goal text, p_goal_hash text, p_title text, p_context text, p_input jsonb, p_labels text[],
    p_metadata jsonb, p_priority int, p_due_at timestamptz, p_assignee text, p_checker text, p_max_attempts int,
    p_status text, p_filer uuid, p_creator bigint, p_filed_by text,
    out o_pk bigint, out o_id text, out o_created_at timestamptz, out o_updated_at timestamptz)
language plpgsql
set plan_cache_mode = force_generic_plan
as $function$
declare
    v_space bigint;
    v_number bigint;
begin
    -- The weakest lock: it keeps how the board is partitioned until the row is there.
    select space_id into v_space from boards_board
     where id = p_board and partition_by = p_partition_by for key share;
    if not found then
        return;
    end if;
    if p_assignee <> '' then
        perform from boards_rosterentry where board_id = p_board and name = p_assignee;
        if not found then
            return;
        end if;
    end if;
    if p_checker_on_roster <> '' then
        perform from boards_rosterentry where board_id = p_board and name = p_checker_on_roster;
        if not found then
            return;
        end if;
    end if;
    if p_twins <> '' then
        perform pg_advisory_xact_lock(p_goals, hashtext(p_twins));
        perform from boards_task
          where board_id = p_board and partition = p_partition and goal_hash = p_goal_hash and assignee = p_assignee
            and visit_id is null and follow_up_of_id is null
            and not (status in ('cancelled', 'completed', 'errored'));
        if found then
            return;
        end if;
    end if;
    update boards_boardcounter set filed_total = filed_total + 1
     where board_id = p_board and partition = p_partition
       and (p_most_total is null or filed_total < p_most_total)
    returning filed_total into v_number;
    if not found then
        return;
    end if;
    -- Counts what is pending only where more was ever filed than may be.
    if v_number > p_most_enqueued then
        perform from boards_task
          where board_id = p_board and partition = p_partition and status = 'pending'
          limit 1 offset p_most_enqueued - 1;
        if found then
            update boards_boardcounter set filed_total = filed_total - 1
             where board_id = p_board and partition = p_partition;
            return;
        end if;
    end if;
    insert into boards_task
           (board_id, partition, id, incarnation_id, revision, goal, goal_hash, title, context, input, labels,
            metadata, priority, due_at, assignee, checker, max_attempts, filer_id, created_by_id, filed_by, stage,
            status, attempts, failures, abandonments, status_note, kept_open_by, unmet_deps, open_holds, grant_no,
            output_is_checkpoint, error, feedback, steers, cancelled_via, write_log, write_log_truncated)
    values (p_board, p_partition, 't' || v_number, p_incarnation, 1, p_goal, p_goal_hash, p_title, p_context, p_input,
            p_labels, p_metadata, p_priority, p_due_at, p_assignee, p_checker, p_max_attempts, p_filer, p_creator,
            p_filed_by, '', p_status, 0, 0, 0, '', '', 0, 0, 0, false, '', '', '[]', '', '[]', false)
    on conflict (board_id, partition, id) do nothing
    returning pk, id, created_at, updated_at into o_pk, o_id, o_created_at, o_updated_at;
    if not found then -- somebody chose that id before
        update boards_boardcounter set filed_total = filed_total - 1
         where board_id = p_board and partition = p_partition;
        return;
    end if;
    insert into boards_event
           (space_id, board_id, task_id, kind, chain, cause, from_status, to_status, attempt, data)
    values (v_space, p_board, o_pk, 'task.filed', p_chain, '', '', p_status, 0, '{}');
end
$function$
"""
DROP = "drop function boards_file_task_1"


class Migration(migrations.Migration):
    dependencies = [
        ("boards", "0220_keys"),
    ]

    operations = [
        migrations.RunSQL(MAKE, DROP),
    ]

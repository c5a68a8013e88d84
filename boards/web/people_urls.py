"""Addresses of the people pages: what waits, answers, flows and their runs; included by `boards.web.urls`."""

from django.urls import URLPattern, path

from boards.web import debts, files, flow_board, flow_editing, flows, holds, needs_acts, needs_bulk, needs_you, runs

urlpatterns: list[URLPattern] = [
    path("needs-you/", needs_you.needs_you, name="needs_you"),
    path("needs-you/rows/", needs_you.needs_rows, name="needs_rows"),
    path("needs-you/row/<str:key>/", needs_you.needs_row, name="needs_row"),
    path("needs-you/seen", needs_acts.seen, name="needs_seen"),
    path("needs-you/settle", needs_acts.settle, name="needs_settle"),
    path("needs-you/bulk", needs_bulk.bulk, name="needs_bulk"),
    path("holds/<int:hold_id>/", holds.hold, name="hold"),
    path("holds/<int:hold_id>/answer", holds.answer_hold, name="answer_hold"),
    path("holds/<int:hold_id>/dismiss", holds.dismiss_hold, name="dismiss_hold"),
    path("holds/<int:hold_id>/undo", holds.undo_hold, name="undo_hold"),
    path("holds/<int:hold_id>/assign", holds.assign_hold, name="assign_hold"),
    path("debts/<int:debt_id>/<slug:verb>", debts.debt_act, name="debt_act"),
    path("f/", flows.flows, name="flows"),
    path("f/<slug:key>/", flow_board.board, name="flow"),
    path("f/<slug:key>/columns", flow_board.board_columns, name="flow_columns"),
    path("f/<slug:key>/menu", flow_board.menu, name="flow_menu"),
    path("f/<slug:key>/runs", flows.flow_runs, name="flow_runs"),
    path("f/<slug:key>/runs/<slug:verb>", flow_board.act, name="flow_act"),
    path("f/<slug:key>/start", flows.start_flow, name="start_flow"),
    path("f/<slug:key>/r/<int:number>/", runs.run, name="run"),
    path("f/<slug:key>/r/<int:number>/parts", runs.run_parts, name="run_parts"),
    path("f/<slug:key>/r/<int:number>/log", runs.run_log, name="run_log"),
    path("f/<slug:key>/r/<int:number>/<slug:verb>", runs.run_act, name="run_act"),
    # No flow's key can be one of these: they have another first part.
    path("new-flow/", flow_editing.new_flow, name="new_flow"),
    path("new-flow/import", flow_editing.import_file, name="import_flows"),
    path("new-flow/template/<slug:key>", flow_editing.add_template, name="add_template"),
    path("new-flow/edit/", flow_editing.new_editor, name="new_flow_editor"),
    path("f/<slug:key>/edit/", flow_editing.edit_flow, name="edit_flow"),
    path("f/<slug:key>/versions/", flow_editing.flow_versions, name="flow_versions"),
    path("f/<slug:key>/export", flow_editing.export_flow, name="export_flow"),
    path("files/<slug:key>/<int:number>/<path:path>", files.run_file, name="run_file"),
]

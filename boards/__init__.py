"""The one app: people and agents share boards of tasks and flows.

Import rule, lowest first (checked by import-linter): words (`states`, `errors`, `measured`, `workers.protocol`) →
`models` → (`actors`, `policy`, `queries`, `wire`, `locks`, `live_notices`) → engines (`tasks` ← `people`, `flows`;
`debts` by registration; `skills`) → `telling` → running (`workers.runner`, `workers.loop`, `demo`) → doors (`web`,
`api`, `live`, `admin`, commands), which never import one another. Only the engines write state.
"""

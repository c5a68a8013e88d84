"""Addresses of the pages. Each group of pages names its own; this module puts them together."""

from django.urls import URLPattern, URLResolver, path

from boards.web import (
    board,
    boards,
    filing,
    health_urls,
    home,
    live_urls,
    members,
    people_urls,
    signin,
    starts_urls,
    task_urls,
    told_urls,
)

app_name = "web"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.home, name="home"),
    path("sign-in/", signin.SignIn.as_view(), name="sign_in"),
    path("sign-in/<str:token>/", signin.sign_in_link, name="sign_in_link"),
    path("sign-out/", signin.sign_out, name="sign_out"),
    path("password/", signin.password, name="password"),
    path("space/", members.switch_space, name="switch_space"),
    path("b/", boards.boards, name="boards"),
    path("b/<board:slug>/", board.board, name="board"),
    path("b/<board:slug>/presence", board.presence, name="presence"),
    path("b/<board:slug>/pause", board.pause_board, name="pause_board"),
    path("b/<board:slug>/file", filing.file_task, name="file_task"),
    *task_urls.urlpatterns,
    *people_urls.urlpatterns,
    *health_urls.urlpatterns,
    *live_urls.urlpatterns,
    *told_urls.urlpatterns,
    *starts_urls.urlpatterns,
]

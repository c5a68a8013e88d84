"""All addresses: health, the admin, the pages."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("boards.web.urls")),
]

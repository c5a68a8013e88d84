"""All addresses: health, the admin, the API, the pages."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("boards.api.urls")),
    path("", include("boards.web.urls")),
]

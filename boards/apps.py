"""The app's configuration."""

from django.apps import AppConfig


class BoardsConfig(AppConfig):
    name = "boards"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Boards"

    def ready(self) -> None:
        # Registration by import: debt payers, workers of installed apps, system checks.
        from boards import registry

        registry.load()

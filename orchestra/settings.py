"""Every setting of the product, read from the environment by small typed readers.

Nothing here starts anything: with no DATABASE_URL the address of the embedded server is only computed
(`orchestra.embedded.ensure` starts it). The README's table lists each variable (spec: 09, section 1).
"""

from __future__ import annotations

import os
import secrets
import sys
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg.conninfo
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from orchestra import embedded

BASE_DIR = Path(__file__).resolve().parent.parent


def env_text(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def env_flag(name: str, default: bool = False) -> bool:
    value = env_text(name).lower()
    if value in {"", "1", "yes", "on", "true", "0", "no", "off", "false"}:
        return default if not value else value in {"1", "yes", "on", "true"}
    raise ImproperlyConfigured(f"{name} must be yes or no, not {value!r}.")


def env_int(name: str, default: int) -> int:
    value = env_text(name)
    try:
        return int(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from None


def env_list(name: str, default: list[str] | None = None) -> list[str]:
    return [part.strip() for part in env_text(name).split(",") if part.strip()] or list(default or [])


DATA_DIR = embedded.data_dir()
DEBUG = env_flag("DEBUG")
SITE_URL = env_text("SITE_URL")


def _secret_key() -> str:
    """The key from the environment, or one kept in the data folder; production must name its own.

    KEEP_SECRET_KEY: every process runs on this machine and shares the folder (`manage.py up` says so).
    """
    if key := env_text("SECRET_KEY"):
        return key
    if env_text("DATABASE_URL") and not DEBUG and not env_flag("KEEP_SECRET_KEY"):
        raise ImproperlyConfigured("Set SECRET_KEY: with a DATABASE_URL every process must share one secret.")
    path = DATA_DIR / "secret_key"
    if not path.exists():
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"secret_key.{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(64))
        try:
            os.link(fresh, path)  # the first of several starting processes wins
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS")


def _database() -> dict[str, Any]:
    url = env_text("DATABASE_URL")
    parts: dict[str, Any]
    if not url:
        parts = {**embedded.address(DATA_DIR)}
    else:
        given = psycopg.conninfo.conninfo_to_dict(url)
        names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
        parts = {names[k]: str(v) for k, v in given.items() if k in names and v is not None}
        parts["OPTIONS"] = {k: v for k, v in given.items() if k not in names}
    options: dict[str, Any] = {
        "connect_timeout": 10,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    options |= parts.pop("OPTIONS", {})
    # Kept out of the start-up packet's `options`, so that a pooler in transaction mode accepts the connection.
    options["prepare_threshold"] = None
    return {
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
        "TEST": {"NAME": env_text("TEST_DATABASE_NAME") or None},
        **parts,
    }


DATABASES = {"default": _database()}
DATABASE_DIRECT_URL = env_text("DATABASE_DIRECT_URL")
LISTEN = env_flag("LISTEN", True)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEST_NON_SERIALIZED_APPS = ["boards"]

INSTALLED_APPS = [
    # Daphne's own `runserver`. As an app it loads the whole server, which would cost every other command a second.
    *(["daphne"] if "runserver" in sys.argv[1:2] else []),
    "boards.apps.BoardsConfig",
    "orchestra.apps.OrchestraAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "axes",
    "csp",
    *env_list("WORKER_APPS"),
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "orchestra.urls"
ASGI_APPLICATION = "orchestra.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "boards.web.context.frame",
            ]
        },
    }
]

AUTH_USER_MODEL = "boards.User"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_TEMPLATE = "signin_locked.html"
TRUSTED_PROXIES = env_int("TRUSTED_PROXIES", 0)

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = True

STATIC_URL = "/static/"
STATIC_ROOT = Path(env_text("STATIC_ROOT") or BASE_DIR / "staticfiles")
STATICFILES_DIRS = [BASE_DIR / "static"]
_hashed = env_flag("HASHED_STATIC", not DEBUG and (STATIC_ROOT / "staticfiles.json").exists())
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "orchestra.static_files.StaticFiles"
        if _hashed
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = not _hashed
if not _hashed:  # files are served from where they lie, so nothing has to be collected
    warnings.filterwarnings("ignore", "No directory at", UserWarning)
WHITENOISE_AUTOREFRESH = DEBUG

# HTTPS is assumed unless the process serves plain HTTP on purpose (`up` on loopback sets INSECURE_HTTP).
_https = not env_flag("INSECURE_HTTP", DEBUG)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = _https and env_flag("SSL_REDIRECT", True)
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]  # asked inside the network, process by process
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _https
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "manifest-src": [SELF],
    }
}


def _email_url() -> str:
    """`smtp://`, `smtp+tls://` (STARTTLS) or `smtps://`, with `user:password@` and `:port` where they are needed."""
    url = env_text("EMAIL_URL")
    parts = urlsplit(url)
    if url and (parts.scheme not in {"smtp", "smtp+tls", "smtps"} or not parts.hostname):
        raise ImproperlyConfigured("EMAIL_URL must be like smtp+tls://user:password@mail.example.org:587.")
    if parts.password and parts.scheme == "smtp" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise ImproperlyConfigured(
            "EMAIL_URL has a password: use smtp+tls:// or smtps://, so that it is not sent open."
        )
    return url


EMAIL_URL = _email_url()
EMAIL_FROM = env_text("EMAIL_FROM")
WEBHOOK_ALLOW_HOSTS = env_list("WEBHOOK_ALLOW_HOSTS")

DRAIN_GRACE_MS = env_int("DRAIN_GRACE_MS", 10_000)
POLL_MS = env_int("POLL_MS", 2_000)
RETENTION_DAYS = env_int("RETENTION_DAYS", 0)  # 0: everything is kept
if RETENTION_DAYS < 0:
    raise ImproperlyConfigured("RETENTION_DAYS must be a number of days, or 0 to keep everything.")
API_CALLS_PER_MINUTE = env_int("API_CALLS_PER_MINUTE", 600)  # of one key or member
if API_CALLS_PER_MINUTE < 1:
    raise ImproperlyConfigured("API_CALLS_PER_MINUTE must be at least 1.")
METRICS_TOKEN = env_text("METRICS_TOKEN")  # lets whoever shows it read /metrics of all spaces
if METRICS_TOKEN and len(METRICS_TOKEN) < 20:
    raise ImproperlyConfigured("METRICS_TOKEN must be at least 20 characters long, or empty.")
COMMAND_ROOT = Path(env_text("COMMAND_ROOT") or DATA_DIR / "work")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env_text("LOG_LEVEL", "INFO")},
    "loggers": {"django.server": {"level": "WARNING"}, "daphne": {"level": "WARNING"}, "axes": {"level": "WARNING"}},
}

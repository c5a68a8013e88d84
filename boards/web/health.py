"""`/healthz` and `/readyz`, for load balancers and `manage.py up`. They need no sign-in and show no names or data."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from boards.queries import health


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers; it asks nothing of the database, so that a database's restart ends no web process."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when this process may be sent traffic, else 503; both say in JSON what was looked at."""
    findings = health.readiness()
    ready = all(finding.ok for finding in findings)
    body = {
        "ready": ready,
        "problems": [finding.sentence for finding in findings if not finding.ok],
        "checks": {finding.name: finding.sentence for finding in findings},
    }
    return JsonResponse(body, status=200 if ready else 503)

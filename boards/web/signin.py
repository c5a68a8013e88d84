"""Getting in and out: password, one-time link, sign-out, and the offer to set a password (spec: 09 section 3)."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from boards import live_notices
from boards.signin import link_user, use_signin_link
from boards.web.members import safe_next, to_sign_in

BACKEND = "django.contrib.auth.backends.ModelBackend"


class SignInForm(AuthenticationForm):
    error_messages = {
        "invalid_login": gettext_lazy("That name and password do not go together. Check both; capitals count."),
        "inactive": gettext_lazy("This account is switched off. Ask an operator of your space."),
    }


class SignIn(LoginView):
    """By name and password. Too many wrong ones: django-axes answers with `signin_locked.html`."""

    template_name = "signin.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"next": self.get_redirect_url()}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """A GET only shows a button: programs that preview links fetch them too, and must not use one up."""
    if request.method != "POST":
        return render(request, "signin_link.html", {"who": link_user(token)})
    user = use_signin_link(token)
    if user is None:
        return render(request, "signin_link.html", {"who": None}, status=410)
    login(request, user, backend=BACKEND)
    return redirect("web:password")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    user_id = request.user.pk
    logout(request)
    live_notices.changed(None, user_id=user_id)  # their open pages close now, not within a minute
    return redirect("web:sign_in")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Set a first password, or change it. Nobody has to: the page can be left."""
    if not request.user.is_authenticated:
        return to_sign_in(request)
    user = request.user
    first = not user.has_usable_password()
    form_class = SetPasswordForm if first else PasswordChangeForm
    form = form_class(user, request.POST or None)
    onward = safe_next(request, request.GET.get("next", ""), "/")
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, user)
        messages.success(request, _("Your password is set.") if first else _("Your password is changed."))
        return redirect(onward)
    return render(request, "signin_password.html", {"form": form, "first": first, "onward": onward})

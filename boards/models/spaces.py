"""Spaces, their members, and how a person first gets in."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models

from boards.models.fields import stamp


class User(AbstractUser):
    """A person who can sign in. `display` is the name that people read."""

    class Meta(AbstractUser.Meta):
        pass

    @property
    def display(self) -> str:
        return self.get_full_name() or self.get_username()

    @property
    def initials(self) -> str:
        words = self.display.split()
        return "".join(word[0] for word in words[:2]).upper() or "?"


class Role(models.TextChoices):
    VIEWER = "viewer", "Viewer"
    MEMBER = "member", "Member"
    OPERATOR = "operator", "Operator"


class Space(models.Model):
    """A workspace: members with roles, boards, flows."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=200)
    # The due time of an agent step that names none, in milliseconds from its entry; none: it has no due time.
    agent_timeout_ms = models.BigIntegerField(null=True, blank=True)
    created_at = stamp()

    class Meta:
        constraints = [
            # Relied on by every visit's due time: it never lies before the entry.
            models.CheckConstraint(
                condition=models.Q(agent_timeout_ms__isnull=True) | models.Q(agent_timeout_ms__gte=1),
                name="space_agent_timeout_positive",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Member(models.Model):
    space = models.ForeignKey(Space, models.CASCADE, related_name="members")
    user = models.ForeignKey("boards.User", models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.MEMBER)
    created_at = stamp()

    class Meta:
        constraints = [
            # Relied on by the rights check: one role a person in a space.
            models.UniqueConstraint(fields=["space", "user"], name="member_once_per_space")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.space}"


class SigninLink(models.Model):
    """A one-time sign-in link; only a hash of its token is kept (spec: 09 section 3)."""

    user = models.ForeignKey("boards.User", models.CASCADE)
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = stamp()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"Sign-in link for {self.user}"

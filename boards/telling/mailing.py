"""E-mail: a message of two parts, handed to the server that EMAIL_URL names (spec: 04 section 4; 09 section 1).

A refusal for good (5xx) is not tried again. What came of a message whose connection broke after the text was handed
over cannot be known, so it is sent again; its Message-ID is the same, by which most mailboxes know a copy.
"""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from boards.outbound import NotNow, Refused
from boards.telling.letters import Letter, one_line

TIMEOUT_S: Final = 10.0
PORTS: Final = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


def is_set_up() -> bool:
    """Whether this installation can send mail: a server, and the address that links begin with."""
    return bool(settings.EMAIL_URL and settings.SITE_URL)


def send_mail(letter: Letter, name: str, address: str) -> None:
    """Hand the message to the server. Raises Refused or NotNow."""
    if not is_set_up():
        raise Refused("This installation sends no mail: EMAIL_URL or SITE_URL is not set.")
    message = mail(letter, name, address)
    server = urlsplit(settings.EMAIL_URL)
    try:
        smtp = _connected(server)
        try:
            smtp.send_message(message)
        finally:
            with contextlib.suppress(smtplib.SMTPException, OSError):
                smtp.quit()  # the message was taken, or not, before this
            smtp.close()
    except smtplib.SMTPRecipientsRefused as error:
        _raise(*next(iter(error.recipients.values())))
    except smtplib.SMTPResponseException as error:
        _raise(error.smtp_code, error.smtp_error)
    except smtplib.SMTPNotSupportedError as error:
        raise Refused(f"The mail server cannot take this: {error}") from error
    except (smtplib.SMTPException, OSError) as error:
        raise NotNow(f"The mail server {server.hostname} could not be reached: {error}") from error


def mail(letter: Letter, name: str, address: str) -> EmailMessage:
    """The message as it goes out. Refused for an address that is none."""
    try:
        validate_email(address)
        to = Address(one_line(name, 80), addr_spec=address)
    except (ValidationError, ValueError, MessageError) as error:
        raise Refused(f"{name} has no e-mail address that mail could be sent to.") from error
    message = EmailMessage()
    message["Subject"] = one_line(letter.subject, 200)
    message["From"] = Address("Orchestra", addr_spec=sender())
    message["To"] = to
    message["Message-ID"] = f"<{letter.id}@{sender().rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message["List-Unsubscribe"] = f"<{letter.settings_url}>"
    message.set_content(letter.text)
    message.add_alternative(letter.html, subtype="html")
    return message


def sender() -> str:
    """EMAIL_FROM, else an address at the host of SITE_URL."""
    return settings.EMAIL_FROM or f"orchestra@{urlsplit(settings.SITE_URL).hostname or 'localhost'}"


def _connected(server: SplitResult) -> smtplib.SMTP:
    host, port = server.hostname or "", server.port or PORTS[server.scheme]
    ours = sender().rpartition("@")[2]  # said in the greeting; looking it up could take long
    if server.scheme == "smtps":
        context = ssl.create_default_context()
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, port, ours, timeout=TIMEOUT_S, context=context)
    else:
        smtp = smtplib.SMTP(host, port, ours, timeout=TIMEOUT_S)
    try:
        if server.scheme == "smtp+tls":
            smtp.starttls(context=ssl.create_default_context())
        if server.username:
            smtp.login(unquote(server.username), unquote(server.password or ""))
    except BaseException:
        smtp.close()
        raise
    return smtp


def _raise(code: int, said: bytes | str) -> None:
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    sentence = f"The mail server answered {code}: {one_line(words, 300)}"
    raise (Refused if 500 <= code < 600 else NotNow)(sentence)

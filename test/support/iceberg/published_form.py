"""Values in the form of published files, from those of a reader in Python."""

import base64
import datetime
import decimal
import uuid


def text(value):
    if isinstance(value, datetime.datetime):
        time = value.strftime("%m-%dT%H:%M:%S.%f")
        return f"{value.year:04d}-{time}" + ("+00:00" if value.tzinfo else "")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        plain = format(value, "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: text(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [text(entry) for entry in value]
    return value

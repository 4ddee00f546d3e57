#!/usr/bin/env python3
"""Imports the dashboards of this folder into Apache Superset, or writes them to a file that Superset imports.

Environment: SQLALCHEMY_URI of the database with the marts, SUPERSET_PASSWORD for --server. Needs only Python.
"""

import argparse
import getpass
import http.cookiejar
import io
import json
import os
import pathlib
import sys
import urllib.error
import urllib.request
import uuid
import zipfile

FOLDER = pathlib.Path(__file__).resolve().parent
PARTS = ("databases", "datasets", "charts", "dashboards")


def bundle(kind: str, uri: str, schema: str) -> bytes:
    """Zips all files, with the database and schema filled in."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        # JSON is YAML, with every character quoted that needs it.
        about = {"version": "1.0.0", "type": kind, "timestamp": "2026-11-23T00:00:00+00:00"}
        archive.writestr("person-etl/metadata.yaml", json.dumps(about))
        for file in sorted(file for part in PARTS for file in (FOLDER / part).glob("*.yaml")):
            text = file.read_text(encoding="utf-8")
            text = text.replace("${SQLALCHEMY_URI}", json.dumps(uri)).replace("${REPORTING_SCHEMA}", json.dumps(schema))
            archive.writestr(f"person-etl/{file.relative_to(FOLDER).as_posix()}", text)
    return content.getvalue()


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would send the token to the new address."""

    def redirect_request(self, *_):
        return None


class Superset:
    """Session with Superset's REST interface."""

    def __init__(self, server: str, user: str, password: str, provider: str):
        self.server = server.rstrip("/")
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(cookies, NoRedirects)
        self.headers = {"Referer": self.server}
        login = {"username": user, "password": password, "provider": provider}
        answer = self.send("/api/v1/security/login", json.dumps(login).encode(), "application/json")
        self.headers["Authorization"] = f"Bearer {answer['access_token']}"
        # The token belongs to the session cookie of this answer.
        self.headers["X-CSRFToken"] = self.send("/api/v1/security/csrf_token/")["result"]

    def send(self, path: str, body=None, content_type=None):
        """Sends a request and returns the JSON of its answer."""
        headers = self.headers | ({"Content-Type": content_type} if content_type else {})
        request = urllib.request.Request(self.server + path, body, headers)
        try:
            with self.opener.open(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if location := error.headers.get("Location"):
                sys.exit(f"{path}: HTTP {error.code}: redirected to {location}. Use that address for --server.")
            sys.exit(f"{path}: HTTP {error.code}: {error.read().decode(errors='replace')[:2000]}")
        except urllib.error.URLError as error:
            sys.exit(f"{self.server} can't be reached: {error.reason}")

    def upload(self, content: bytes) -> None:
        """Imports a bundle; replaces what an earlier import created."""
        boundary = uuid.uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="bundle"; filename="person-etl.zip"\r\n'
        body = head.encode() + b"Content-Type: application/zip\r\n\r\n" + content + f"\r\n--{boundary}--\r\n".encode()
        self.send("/api/v1/assets/import/", body, f"multipart/form-data; boundary={boundary}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schema", required=True, help="schema (BigQuery: dataset) with the reporting marts")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--server", help="imports into the Superset at this URL")
    way.add_argument("--zip", type=pathlib.Path, help="writes a file for Superset's page or command line instead")
    parser.add_argument("--user", default="admin", help="user of --server, who may create databases (default: %(default)s)")
    parser.add_argument("--provider", choices=("db", "ldap"), default="db", help="where --user is registered (default: %(default)s)")
    args = parser.parse_args()
    uri = os.environ.get("SQLALCHEMY_URI")
    if not uri:
        sys.exit("Set SQLALCHEMY_URI to the database with the marts, e.g. postgresql://bi:PASSWORD@HOST:5432/DATABASE")
    if args.zip:
        # It contains the database's password.
        with open(os.open(args.zip, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(bundle("Dashboard", uri, args.schema))
        print(f"Wrote {args.zip}. It contains the database's password: remove it after the import.")
        return
    password = os.environ.get("SUPERSET_PASSWORD") or getpass.getpass(f"Password of {args.user}: ")
    superset = Superset(args.server, args.user, password, args.provider)
    superset.upload(bundle("assets", uri, args.schema))
    print(f"Imported. Open {superset.server}/dashboard/list/?filters=(search:person-etl)")


if __name__ == "__main__":
    main()

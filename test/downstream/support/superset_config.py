"""Settings of the Superset of the tests: HTTP on this machine, metadata in a file."""

import os

SECRET_KEY = "only for synthetic figures of tests"
SQLALCHEMY_DATABASE_URI = f"sqlite:///{os.environ['PERSON_ETL_TEST_SUPERSET']}"
TALISMAN_ENABLED = False


def FLASK_APP_MUTATOR(app):
    """Reads one time range at a time: the library that parses them isn't safe for use by several threads."""
    from threading import Lock

    from superset.utils import date_parser

    lock = Lock()
    read = date_parser.datetime_eval

    def read_alone(*arguments, **options):
        with lock:
            return read(*arguments, **options)

    date_parser.datetime_eval = read_alone

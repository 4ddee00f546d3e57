"""Settings of the Superset of the tests: HTTP on this machine, metadata in a file."""

import os

SECRET_KEY = "only for synthetic figures of tests"
SQLALCHEMY_DATABASE_URI = f"sqlite:///{os.environ['PERSON_ETL_TEST_SUPERSET']}"
TALISMAN_ENABLED = False

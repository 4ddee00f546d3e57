"""Runs queries on Iceberg tables by Spark: one JSON document {name: rows} with rows in the form of published files.

Arguments: properties of the catalog and Spark as JSON, and {name: query} as JSON; further arguments are tables whose files Spark first
rewrites, as an administrator may do.
"""

import datetime
import json
import sys

from published_form import text
from pyspark.sql import SparkSession

settings, queries = json.loads(sys.argv[1]), json.loads(sys.argv[2])
builder = SparkSession.builder.master("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.sql("USE lake")


def shown(value, kind):
    if isinstance(value, datetime.datetime) and kind == "timestamp":
        return text(value.replace(tzinfo=datetime.timezone.utc))
    return text(bytes(value) if isinstance(value, bytearray) else value)


for table in sys.argv[3:]:
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
found = {}
for name, query in queries.items():
    frame = spark.sql(query)
    kinds = dict(frame.dtypes)
    found[name] = [{column: shown(row[column], kinds[column]) for column in kinds} for row in frame.collect()]
sys.stdout.write(json.dumps(found))
spark.stop()

# Answers statements that come as lines of JSON: {"sql": ..., "to": a Parquet file for the rows}.
import json, sys
import duckdb

db = duckdb.connect()
print(json.dumps({"version": duckdb.__version__}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    try:
        if asked.get("to"):
            db.execute(f"COPY ({asked['sql']}) TO '{asked['to']}' (FORMAT parquet)")
        else:
            db.execute(asked["sql"])
        print(json.dumps({}), flush=True)
    except Exception as error:
        print(json.dumps({"error": str(error)[:500]}), flush=True)

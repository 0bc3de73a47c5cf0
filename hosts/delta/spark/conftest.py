from pathlib import Path

import pytest
from engines import Engines, start_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    try:
        session = start_spark(tmp_path_factory.mktemp("warehouse"))
    except Exception as error:
        pytest.skip(f"Spark does not start with the jars of Delta, which Maven has: {error}")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def engines(spark, tmp_path_factory) -> Engines:
    lake: Path = tmp_path_factory.mktemp("lake")
    (lake / "results").mkdir()
    return Engines(spark, lake)

# Everything that a person or CI runs. Build artefacts live in the user's cache folder, so that a
# fresh clone reuses them.
XDG_CACHE_HOME ?= $(HOME)/.cache
export CARGO_TARGET_DIR ?= $(XDG_CACHE_HOME)/pagecast/target
PAGECAST := $(CARGO_TARGET_DIR)/release/pagecast
# The shuttle builds set a cfg for every crate; their own folder keeps the ordinary builds warm.
EXPLORE := CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/explore CARGO_PROFILE_DEV_OPT_LEVEL=1 RUSTFLAGS="--cfg pagecast_shuttle"

.PHONY: help build reproduction demo test check test-core test-references test-capi test-kv test-soak soak durability test-host soak-delta test-objects test-serve test-serve-attacks s3s-fs explore check-threads no-std fuzz fuzz-delta fuzz-sql lint deny test-postgres regress-postgres bench-sql bench-throughput bench-delivery bench-dashboards bench-stops bench-objects bench-flash bench-postgres bench-postgres-paper bench-postgres-grid demo-postgres bench-pool bench-io bench-lock bench-sim bench-tuples bench-prediction bench-kv wheel wheel-sql dist test-dist lint-dist package test-python test-python-sql bench-python-sql bench-peers bench-memory bench-clickbench test-distributed lint-distributed bench-python results capi capi-header bench-foyer test-deltalake lint-deltalake test-iceberg test-delta-spark test-ducklake clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: ## the pagecast command, optimized
	cargo build --release --locked -p pagecast-cli
	@echo "built $(PAGECAST)"

demo: build ## TPC-H lineitem through some policies at 40 MB/s; writes target/demo.{json,html}
	@mkdir -p target
	$(PAGECAST) bench --json target/demo.json --html target/demo.html

test: test-core test-references test-capi test-kv test-soak explore no-std test-host test-ducklake test-objects test-python test-python-sql test-postgres fuzz ## every test

check: ## the quick loop: core, pool and simulator formatted, linted and tested; documents
	cargo fmt --all --check
	cargo clippy --locked -p pagecast-core -p pagecast -p pagecast-sim --all-targets -- -D warnings
	$(MAKE) test-core
	python3 ci/documents.py
	python3 ci/results.py --check

test-core: ## predictor, policies, pool, simulator
	cargo test --locked -p pagecast-core -p pagecast -p pagecast-sim

test-references: ## miss counts on shared traces beside other simulators'
	cargo test --release --locked -p pagecast-sim --test reference -- --nocapture

test-capi: ## the C interface: its header, and a C program against both libraries
	cargo test --locked -p pagecast-capi

test-kv: ## the key-value store: crashes in every write, errors at every call, damage of every file
	cargo test --locked -p pagecast-kv

test-soak: ## a minute of sessions, faults and resizes at once
	SOAK_SECONDS=60 cargo test --locked -p pagecast --features prometheus,tracing --test soak --test operations -- --nocapture
	SOAK_SECONDS=30 cargo test --locked -p pagecast-kv --test soak -- --nocapture

soak-delta: ## 20 writers and 20 readers of a Delta table are killed for MINUTES (1)
	PAGECAST_WRITERS=20 PAGECAST_SECONDS=$$((60 * $${MINUTES:-1})) cargo test --locked -p pagecast-delta --test tables -- --exact table::writers::killed_writers_lose_nothing --nocapture

soak: ## the same for half an hour (SOAK_SECONDS, SOAK_SEED), optimized
	SOAK_SECONDS=$${SOAK_SECONDS:-1800} cargo test --release --locked -p pagecast -p pagecast-kv --test soak -- --nocapture

durability: ## crashes, errors, lives and damage for MINUTES (12) from SEED (1) on, optimized
	DURABILITY_SECONDS=$$((10 * $${MINUTES:-12})) DURABILITY_SEED=$${SEED:-1} cargo test --release --locked -p pagecast -p pagecast-kv --test crashes -- --nocapture --test-threads 1 threads_ an_error_at a_store_lives damage_is

capi: ## libpagecast_c.a and .so, optimized
	cargo build --release --locked -p pagecast-capi
	@echo "built $(CARGO_TARGET_DIR)/release/libpagecast_c.{a,so}; the header is hosts/capi/include/pagecast.h"

capi-header: ## writes the C header anew
	PAGECAST_WRITE_HEADER=1 cargo test --locked -p pagecast-capi --test header

explore: ## the concurrency protocols under a schedule explorer
	$(EXPLORE) cargo test --locked -p pagecast-core --test predictor_shuttle --test policy_shuttle --test cooperation_shuttle --test line_shuttle
	$(EXPLORE) cargo test --locked -p pagecast --lib exploration

check-threads: ## ThreadSanitizer and Miri, where a nightly compiler has them
	bash ci/check-threads.sh

no-std: ## predictor and manager of cooperation link without std and without an allocator
	bash ci/core-no-std.sh

# One build of DataFusion for all of them: the server turns on features of what it stands on.
HOSTS := -p pagecast-tables -p pagecast-corrections -p pagecast-datafusion -p pagecast-delta -p pagecast-iceberg -p pagecast-ducklake -p pagecast-sql -p pagecast-fuzz -p pagecast-server -p pagecast-cli --features pagecast-cli/flight,pagecast-cli/iceberg,pagecast-cli/ducklake
test-host: ## DataFusion host, Delta tables, command and server, and what else needs Parquet
	bash ci/servers.sh bash ci/clients.sh cargo test --locked $(HOSTS)
	cargo test --locked $(HOSTS) -p pagecast --test objects --test pooled_store --test flash
	cargo test --locked -p pagecast-sim --features redset --lib redset

test-objects: ## the pool over S3 servers on loopback: one that Go builds once; s3s-fs
	bash ci/servers.sh cargo test --locked --manifest-path crates/pagecast/servers/Cargo.toml

s3s-fs: ## a second S3 server for test-objects, which ignores conditions: minutes of building, once
	cargo install --locked --root $(XDG_CACHE_HOME)/pagecast/tools --features binary --version 0.14.1 s3s-fs

test-serve: ## of these, the server under psql, psycopg, SQLAlchemy, ADBC and JDBC
	bash ci/clients.sh cargo test --locked $(HOSTS) --test serve -- --nocapture $(ARGS)

# The server is the optimized one that people run; another client may wait a second.
test-serve-attacks: ## the server under clients that would hurt others, five times as much of each
	cargo build --release --locked -p pagecast-cli --features flight
	SERVE_BINARY=$(abspath $(PAGECAST)) SERVE_ATTACK_SECONDS=1 SERVE_ATTACK_ROUNDS=$${SERVE_ATTACK_ROUNDS:-5} \
		cargo test --locked $(HOSTS) --test serve -- --nocapture --test-threads 1 attacks $(ARGS)

wheel: ## the Python package, as a wheel in target/wheels
	bash ci/python.sh wheel

test-python: ## the wheel in a fresh virtual environment, and its tests there
	bash ci/python.sh test

wheel-sql: ## the wheel of SQL for Python, optimized, on what the command was built on
	bash ci/python.sh wheel-sql

test-python-sql: ## SQL in Python, in a fresh virtual environment
	bash ci/python.sh test-sql

dist: ## the release, in target/dist (ARGS='command postgresql' for some parts)
	bash dist/build.sh $(ARGS)

test-dist: ## each part of the release in an empty place, and three lines there
	bash dist/test.sh $(ARGS)

lint-dist: ## workflows, images and scripts of the release; crates can be packed; seconds
	bash dist/lint.sh

# As whoever installs them from a registry compiles them: DataFusion once more, minutes. Manifests
# say which crates these are; cargo finds the order.
package: ## the crates that are to be published, packed and compiled from that
	CARGO_PROFILE_DEV_DEBUG=0 cargo publish --workspace --dry-run --locked $(ARGS)

# A workspace of its own: nobody builds tonic and Arrow Flight along.
DISTRIBUTED := --locked --manifest-path hosts/distributed/Cargo.toml
test-distributed: ## the host for datafusion-distributed: three workers on loopback
	cargo test $(DISTRIBUTED) -p pagecast-distributed -p pagecast-cluster
	cargo run $(DISTRIBUTED) --example cluster

lint-distributed: ## its formatting and clippy
	cargo fmt --manifest-path hosts/distributed/Cargo.toml --check
	cargo clippy $(DISTRIBUTED) --all-targets -- -D warnings

# A workspace of its own: nobody builds the deltalake crate along, which wants Rust 1.95.
DELTALAKE := --locked --manifest-path hosts/delta/deltalake/Cargo.toml
test-ducklake: ## DuckLake tables of DuckDB beside DuckDB; hostile ones
	cargo build --locked $(HOSTS)
	PAGECAST=$(CARGO_TARGET_DIR)/debug/pagecast bash ci/ducklake.sh $(ARGS)

test-deltalake: ## tables of the deltalake crate in a session that has a pool
	cargo test $(DELTALAKE)

lint-deltalake: ## its formatting and clippy
	cargo fmt --manifest-path hosts/delta/deltalake/Cargo.toml --check
	cargo clippy $(DELTALAKE) --all-targets -- -D warnings

# One build with all features, so that DataFusion is not built once more.
test-iceberg: ## Iceberg tables of pyiceberg and Spark beside their own readers; hostile ones
	cargo test --locked $(HOSTS) --lib --test iceberg
	cargo build --locked $(HOSTS)
	PAGECAST_BINARY=$(CARGO_TARGET_DIR)/debug/pagecast bash ci/servers.sh bash ci/iceberg.sh \
		python -m unittest discover -s hosts/iceberg/tests/strangers $(ARGS)

test-delta-spark: ## tables of Spark, read and changed beside Spark itself (ARGS='-k clustered')
	cargo build --locked $(HOSTS)
	PAGECAST=$(CARGO_TARGET_DIR)/debug/pagecast bash ci/delta-spark.sh $(ARGS)

fuzz: ## what reads traces, stores, flash, clients under libFuzzer, each for FUZZ_SECONDS (20)
	bash ci/fuzz.sh

# Built with the command, so that both have one build of DataFusion.
fuzz-sql: ## random statements beside computed rows; target/bench/fuzz-sql.json (ARGS='--seed 7')
	@mkdir -p target/bench
	cargo build --release --locked -p pagecast-cli -p pagecast-fuzz --features pagecast-cli/iceberg,pagecast-cli/ducklake
	bash ci/writers.sh $(CARGO_TARGET_DIR)/release/fuzz-sql --statements 100000 --json target/bench/fuzz-sql.json $(ARGS)

fuzz-delta: ## the log and checkpoints of Delta tables; DataFusion is built once more
	bash ci/fuzz.sh delta

lint: ## formatting, clippy, the command without DataFusion, comments and documents
	cargo fmt --all --check
	PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 cargo clippy --locked --workspace --all-targets --features pagecast-cli/flight,pagecast-cli/iceberg,pagecast-cli/ducklake -- -D warnings
	cargo clippy --locked -p pagecast-cli --no-default-features --all-targets -- -D warnings
	cargo clippy --locked -p pagecast --all-features --all-targets -- -D warnings
	cargo fmt --manifest-path hosts/postgres/predictor/Cargo.toml --check
	cargo fmt --manifest-path hosts/peers/caches/Cargo.toml --check
	cargo clippy --locked --release --manifest-path hosts/postgres/predictor/Cargo.toml -- -D warnings
	python3 ci/one_build.py
	python3 ci/documents.py
	python3 ci/results.py --check
	python3 ci/reproduction.py --check

deny: ## licences, sources and duplicate crates
	bash ci/deny.sh

test-postgres: ## pg_pagecast, built, installed and tested (ARGS='--rounds 10')
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=hosts/postgres python3 -m tests $(ARGS)

regress-postgres: ## PostgreSQL's own suites with it (ARGS='--modes steering')
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=hosts/postgres python3 -m tests.regress $(ARGS)

SEEDS ?= 1 2 3
bench-sql: build ## the main job, 8 and 32 streams; target/bench/sql-*.json (ARGS='--repeat 4')
	@mkdir -p target/bench
	set -e; for seed in $(SEEDS); do for job in 8:6 32:2; do \
		$(PAGECAST) bench --streams $${job%:*} --queries $${job#*:} --seed $$seed \
			--policies clock,pbm-paper,pbm --json target/bench/sql-$${job%:*}-$$seed.json $(ARGS); \
	done; done

bench-throughput: build ## TPC-H by streams; target/bench/throughput-*.json (ARGS='--seed 2')
	@mkdir -p target/bench
	set -e; for streams in 2 4 8 16; do \
		$(PAGECAST) bench --workload tpch --sf 0.5 --streams $$streams --policies pbm --bandwidth 100MB/s \
			--delivery stock,in-order,out-of-order --json target/bench/throughput-$$streams.json $(ARGS); \
	done

bench-delivery: build ## out of order on a grid; target/bench/delivery.json (ARGS=--long)
	python3 ci/delivery.py $(PAGECAST) $(ARGS)

bench-dashboards: build ## reports that come back; target/bench/dashboards.json (ARGS='--disk 40')
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=hosts/postgres python3 ci/dashboards.py $(PAGECAST) $(ARGS)

bench-stops: ## how long stopped statements take to end; target/bench/stops.json
	cargo build --release --locked -p pagecast-cli --features flight,iceberg,ducklake
	bash ci/stops.sh $(PAGECAST) $(ARGS)

bench-objects: build ## an object store beside files; target/bench/objects.json (ARGS='--sf 0.1')
	python3 ci/objects.py $(PAGECAST) $(ARGS)

# A workspace of its own: nobody builds foyer along.
bench-foyer: build ## the same with a tier on flash, beside foyer's hybrid cache
	cargo build --release --locked --manifest-path crates/pagecast-lab/foyer/Cargo.toml
	python3 ci/objects.py $(PAGECAST) --foyer $(CARGO_TARGET_DIR)/release/pagecast-foyer-bench $(ARGS)

results: ## docs/results.md from what the benchmarks wrote to target/bench, and before
	python3 ci/results.py

# hosts/postgres builds and measures by itself; ARGS go to its commands:
# `make bench-postgres ARGS='--workloads tpch --streams 8'`.
bench-postgres: ## stock PostgreSQL against pg_pagecast; target/bench/postgres.{json,html}
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=hosts/postgres python3 -m bench $(ARGS)

bench-postgres-paper: ## Figures 5 to 12 of the paper, hours; target/bench/paper-postgres.json
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=hosts/postgres python3 -m bench.paper $(ARGS)

bench-postgres-grid: ## sequential scans: streams by pools of 5 to 30 % (ARGS='--seeds 3')
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=hosts/postgres python3 -m bench --workloads cooperative --streams 4,8,16,32,64 \
		--pools 5%,10%,20%,30% --read-ahead 1MiB --parallel off --seeds 1 \
		--json target/bench/postgres-grid.json --html target/bench/postgres-grid.html $(ARGS)

demo-postgres: ## the same from nothing, small; target/demo-postgres.{json,html} (ARGS=--keep)
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=hosts/postgres python3 -m demo $(ARGS)

bench-sim: ## the simulator's throughput against libcachesim; writes target/bench/sim.json
	cargo build --release --locked -p pagecast-cli --no-default-features
	bash ci/bench-sim.sh $(PAGECAST)

bench-python: ## the simulator in Python against libcachesim; target/bench/python.json
	bash ci/python.sh bench $(ARGS)

bench-python-sql: ## SQL in Python beside the command; target/bench/python-sql.json
	bash ci/python.sh bench-sql $(ARGS)

# LiquidCache and foyer are built in a workspace of their own, with another DataFusion.
bench-peers: ## reports beside other engines on a slowed disk, hours; target/bench/peers.json
	bash ci/python.sh bench-peers $(ARGS)

bench-memory: ## statements in little memory, beside others; target/bench/memory.json (ARGS=--long)
	bash ci/python.sh bench-memory $(ARGS)

bench-clickbench: ## ClickBench beside DuckDB; target/bench/clickbench.json (ARGS=--long)
	bash ci/python.sh bench-clickbench $(ARGS)

bench-tuples: ## buffers of tuples, goals beside; target/bench/tuples.json (ARGS='--seeds 1')
	cargo build --release --locked -p pagecast-cli --no-default-features
	python3 ci/tuples.py $(PAGECAST) $(ARGS)

bench-flash: ## the tier on flash of a pool beside the simulator's; target/bench/flash.json
bench-io: ## threads, io_uring and read ahead; writes target/bench/io.json
bench-lock: ## the lock of ordered policies under loads like DBT-1 and DBT-2; target/bench/lock.json
bench-pool: ## hit path and eviction cost against other caches; writes target/bench/pool.json
bench-prediction: ## hit rates, what a victim costs; target/bench/prediction.json

bench-flash bench-io bench-lock bench-pool bench-prediction:
	@mkdir -p target/bench
	cargo run --release --locked -p pagecast-lab -- $(@:bench-%=%) --json target/bench/$(@:bench-%=%).json $(ARGS)

# A workspace of its own: nobody builds redb, fjall and Bf-Tree along.
bench-kv: ## the key-value store beside its peers; target/bench/kv.json (ARGS='--parts lookups')
	@mkdir -p target/bench
	cargo run --release --locked --manifest-path hosts/kv/bench/Cargo.toml -- --folder target/bench --json target/bench/kv.json $(ARGS)

reproduction: ## the papers' figures; docs/reproduction.md (FIGURES='5 2011-6.1' for some)
	cargo build --release --locked -p pagecast-cli --no-default-features
	bash ci/reproduction.sh $(PAGECAST) $(FIGURES)
	python3 ci/reproduction.py

clean: ## removes the cached build artefacts
	cargo clean

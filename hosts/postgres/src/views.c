/*
 * What the views read.
 */
#include "recurring.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_pagecast_scans);
PG_FUNCTION_INFO_V1(pg_pagecast_chunks);
PG_FUNCTION_INFO_V1(pg_pagecast_relations);
PG_FUNCTION_INFO_V1(pg_pagecast_buffers);
PG_FUNCTION_INFO_V1(pg_pagecast_stats);
PG_FUNCTION_INFO_V1(pg_pagecast_reset);
PG_FUNCTION_INFO_V1(pg_pagecast_expected);
PG_FUNCTION_INFO_V1(pg_pagecast_forget);

static const char *const kinds[] = {
	[SCAN_BITMAP] = "bitmap",
	[SCAN_SEQUENTIAL] = "sequential",
	[SCAN_TRAILING] = "trailing index",
	[SCAN_COOPERATIVE] = "cooperative"
};

static void
require_loaded(void)
{
	if (!pagecast_loaded())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_pagecast is not loaded"),
				 errhint("Add pg_pagecast to shared_preload_libraries and restart the server.")));
}

/* Makes ready for rows of so many columns. Who has upgraded the extension but not restarted asks
 * for more than this library has. */
static ReturnSetInfo *
begin_rows(FunctionCallInfo fcinfo, int columns)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	require_loaded();
	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts > columns)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the pg_pagecast that this server has loaded is older than the extension in this database"),
				 errhint("Restart the server, which then loads the library that is installed.")));
	return result;
}

/* When a scan of `left` blocks at `pace` will have ended; infinity where that is further off than
 * anybody waits. */
static TimestampTz
expected_end(TimestampTz now, uint64 left, double pace)
{
	double		seconds = left * pace / 1e9;

	return seconds < 10.0 * SECS_PER_YEAR ? now + (TimestampTz) (seconds * USECS_PER_SEC) : DT_NOEND;
}

/* One row for each registered scan. */
Datum
pg_pagecast_scans(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = begin_rows(fcinfo, 13);
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < pagecast_max_scans; i++)
	{
		PredictorView view;
		ChunkProgress progress;
		Datum		values[13];
		bool		nulls[13] = {false};
		ScanSlot	slot;
		uint64		left;
		bool		runs;

		LWLockAcquire(shared->lock, LW_SHARED);
		slot = scan_slots[i];
		runs = slot.scan != NO_SCAN && !scan_has_ended(slot.scan) && predictor_view(predictor, slot.scan, &view);
		LWLockRelease(shared->lock);
		if (!runs)
			continue;
		left = view.length - Min(view.position, view.length);
		values[0] = Int32GetDatum(slot.pid);
		values[1] = Int32GetDatum(slot.plan_node);
		values[2] = ObjectIdGetDatum(slot.database);
		values[3] = ObjectIdGetDatum(slot.relation);
		values[4] = CStringGetTextDatum(kinds[slot.kind]);
		values[5] = Int64GetDatum(view.position);
		/* Before the first measurement this is the pace that scans of its kind usually have. */
		values[6] = Float8GetDatum(1e9 / view.pace);
		values[7] = Int64GetDatum(left);
		values[8] = TimestampTzGetDatum(expected_end(now, left, view.pace));
		if (slot.member != NO_MEMBER && cooperation_progress(slot.member, &progress))
		{
			values[9] = Int32GetDatum(progress.chunks);
			values[10] = Int32GetDatum(progress.done);
			values[11] = Int32GetDatum(progress.waited_for);
			values[12] = Int64GetDatum(progress.shared);
		}
		else
			memset(&nulls[9], true, 4);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Which relation a chunk is of: that of a registered scan. Under the lock. */
static const ScanSlot *
scan_of_relation(uint32 name)
{
	for (int i = 0; i < pagecast_max_scans; i++)
	{
		if (scan_slots[i].scan != NO_SCAN && scan_slots[i].name == name)
			return &scan_slots[i];
	}
	return NULL;
}

static void
put_chunk(ReturnSetInfo *result, const ChunkView *chunk)
{
	const ScanSlot *slot;
	Datum		values[6] = {0};
	bool		nulls[6] = {false};

	LWLockAcquire(shared->lock, LW_SHARED);
	slot = scan_of_relation(chunk->name);
	nulls[0] = nulls[1] = slot == NULL;
	values[0] = ObjectIdGetDatum(slot ? slot->database : InvalidOid);
	values[1] = ObjectIdGetDatum(slot ? slot->relation : InvalidOid);
	LWLockRelease(shared->lock);
	values[2] = Int64GetDatum(chunk->first);
	values[3] = Int64GetDatum(chunk->blocks);
	values[4] = BoolGetDatum(chunk->resident);
	values[5] = Int32GetDatum(chunk->wanted);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* One row for each chunk that cooperative scans need, in all databases. */
Datum
pg_pagecast_chunks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = begin_rows(fcinfo, 6);
	uint32		room = cooperation_chunks(NULL, 0);
	ChunkView  *chunks = MemoryContextAllocHuge(CurrentMemoryContext, Max(room, 1) * sizeof(ChunkView));
	uint32		count = Min(cooperation_chunks(chunks, room), room);

	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		put_chunk(result, &chunks[i]);
	}
	return (Datum) 0;
}

/* One row for each relation that registered scans have read, in all databases, and one without a
 * name for those that are not counted by themselves. */
Datum
pg_pagecast_relations(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = begin_rows(fcinfo, 5);
	RelationCounts *copy = palloc((COUNTED_RELATIONS + 1) * sizeof(RelationCounts));
	uint32		count = relation_counts_copy(copy);

	for (uint32 i = 0; i < count; i++)
	{
		Datum		values[5];
		bool		nulls[5] = {false};
		RelationCounts counts = copy[i];

		if (counts.hits + counts.reads == 0)
			continue;
		nulls[0] = nulls[1] = counts.relation == InvalidOid;
		values[0] = ObjectIdGetDatum(counts.database);
		values[1] = ObjectIdGetDatum(counts.relation);
		values[2] = Int64GetDatum(counts.hits);
		values[3] = Int64GetDatum(counts.reads);
		values[4] = Int64GetDatum(counts.saved);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static Datum
moment(double seconds)
{
	return TimestampTzGetDatum((TimestampTz) ((seconds - (double) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY) * USECS_PER_SEC));
}

/* One row for each scan of a statement that may come back, in all databases. */
Datum
pg_pagecast_expected(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = begin_rows(fcinfo, 12);
	PredictorTemplate template;
	ScanSlot	slot;
	int			found;

	for (size_t place = 0; (found = recurring_view(place, &template, &slot)) >= 0; place++)
	{
		Datum		values[12] = {0};
		bool		nulls[12] = {false};
		bool		expected = template.length > 0 && slot.statement == template.fingerprint;

		if (found == 0)
			continue;
		values[0] = Int64GetDatum(template.fingerprint);
		values[5] = moment(template.last);
		values[6] = moment(template.due);
		nulls[6] = template.due == 0;
		values[7] = Float8GetDatum(template.trust);
		values[8] = Int64GetDatum(template.runs);
		values[9] = Int64GetDatum(template.came);
		values[10] = Int64GetDatum(template.failed);
		if (expected)
		{
			values[1] = Int64GetDatum(slot.queryid);
			values[2] = ObjectIdGetDatum(slot.database);
			values[3] = ObjectIdGetDatum(slot.relation);
			values[4] = CStringGetTextDatum(kinds[slot.kind]);
			values[11] = Int64GetDatum(template.length);
		}
		else
			nulls[1] = nulls[2] = nulls[3] = nulls[4] = nulls[11] = true;
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Whether the statement was known. */
Datum
pg_pagecast_forget(PG_FUNCTION_ARGS)
{
	require_loaded();
	PG_RETURN_BOOL(recurring_forget(PG_GETARG_INT64(0)));
}

typedef struct BufferCounts
{
	RelFileLocator locator;		/* the key */
	int64		buffers;
	int64		predicted;
} BufferCounts;

/* One row for each relation of this database with pages in the pool: how many, and how many of them
 * some scan wants. */
Datum
pg_pagecast_buffers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = begin_rows(fcinfo, 4);
	/* In the context of the call: who cancels it leaves nothing behind. */
	HASHCTL		control = {.keysize = sizeof(RelFileLocator), .entrysize = sizeof(BufferCounts), .hcxt = CurrentMemoryContext};
	HTAB	   *table;
	HASH_SEQ_STATUS status;
	BufferCounts *counts;
	uint64		now = pagecast_now();

	table = hash_create("pg_pagecast buffers", 256, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; i < NBuffers; i++)
	{
		BufferDesc *header = GetBufferDescriptor(i);
		uint32		state = pg_atomic_read_u32(&header->state);
		RelFileLocator locator = tag_locator(&header->tag);
		bool		found;

		CHECK_FOR_INTERRUPTS();
		if ((state & BM_VALID) == 0 || locator_database(&locator) != MyDatabaseId || tag_fork(&header->tag) != MAIN_FORKNUM)
			continue;
		counts = hash_search(table, &locator, HASH_ENTER, &found);
		if (!found)
			counts->buffers = counts->predicted = 0;
		counts->buffers++;
		if (predictor_next_access(predictor, pagecast_relation_name(&locator), header->tag.blockNum, now) != UINT64_MAX)
			counts->predicted++;
	}
	hash_seq_init(&status, table);
	while ((counts = hash_seq_search(&status)) != NULL)
	{
		Datum		values[4] = {
			ObjectIdGetDatum(locator_space(&counts->locator)), ObjectIdGetDatum(locator_number(&counts->locator)),
			Int64GetDatum(counts->buffers), Int64GetDatum(counts->predicted)
		};
		bool		nulls[4] = {false};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	hash_destroy(table);
	return (Datum) 0;
}

/* One row: the counters in their order, and among them, behind those of blocks, how many scans are
 * registered now, and since when is counted. */
Datum
pg_pagecast_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = begin_rows(fcinfo, COUNTERS + 2);
	Datum		values[COUNTERS + 2];
	bool		nulls[COUNTERS + 2] = {false};

	for (int i = 0; i < COUNTERS; i++)
		values[i <= COUNT_SAVED ? i : i + 2] = Int64GetDatum(pg_atomic_read_u64(&shared->counters[i]));
	values[COUNT_SAVED + 1] = Int64GetDatum(pg_atomic_read_u32(&shared->active));
	values[COUNT_SAVED + 2] = TimestampTzGetDatum((TimestampTz) pg_atomic_read_u64(&shared->counted_since));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}

Datum
pg_pagecast_reset(PG_FUNCTION_ARGS)
{
	require_loaded();
	registration_reset_counts();
	steering_try_again();
	PG_RETURN_VOID();
}

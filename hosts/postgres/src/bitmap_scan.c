/*
 * Bitmap heap scans, registered exactly once their bitmap is built.
 *
 * Source: Khalaji et al. 2025, section 4.4.1. Between two calls of the heap's access method the scan's relation is a stand-in (version.c) that
 * leads here; for the call itself the true relation is put back. So nothing but this scan is touched: no entry of the relation
 * cache, no plan node, no function that the heap compares. At the first block the bitmap is there and nothing of the heap is
 * read yet; a second iterator lists its blocks.
 *
 * In a parallel plan the process that has built the bitmap registers it, the others join: all report the blocks that they come to, and the
 * furthest counts.
 *
 * Cost: two stores and a call for each tuple, about a microsecond for each block. A bitmap of fewer than LEAST_BLOCKS blocks is not
 * worth it and runs as always.
 */
#include "pg_pagecast.h"

#include "access/tableam.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"

#define LEAST_BLOCKS 32

typedef struct ObservedScan
{
	RelationData stand_in;		/* first: the scan's rs_rd points to it, and so to all of this */
	FormData_pg_class form;
	Relation	relation;
	BitmapHeapScanState *node;
	Registration registration;
	bool		announced;		/* this execution was offered to the predictor */
	bool		joins;			/* a parallel worker that has not found its scan yet */
	MemoryContextCallback ended;
} ObservedScan;

static TableAmRoutine observing;

static inline ObservedScan *
enter(TableScanDesc scan)
{
	ObservedScan *observed = (ObservedScan *) scan->rs_rd;

	scan->rs_rd = observed->relation;
	return observed;
}

static inline void
leave(TableScanDesc scan, ObservedScan *observed)
{
	scan->rs_rd = &observed->stand_in;
}

/* The blocks of a bitmap as runs, while they come in their order. */
typedef struct RunBuilder
{
	PredictorRun *runs;
	size_t		count,
				room;
	uint64		blocks;
} RunBuilder;

static void
add_block(RunBuilder *builder, BlockNumber block)
{
	PredictorRun *last = builder->count > 0 ? &builder->runs[builder->count - 1] : NULL;

	if (last && (block == last->first + last->blocks ||
				 block / pagecast_block_group == (last->first + last->blocks - 1) / pagecast_block_group))
	{
		last->blocks = block - last->first + 1;
		last->span++;
	}
	else
	{
		if (builder->count == builder->room)
		{
			builder->room *= 2;
			builder->runs = repalloc_huge(builder->runs, builder->room * sizeof(PredictorRun));
		}
		builder->runs[builder->count++] = (PredictorRun) {block, 1, builder->blocks, 1};
	}
	builder->blocks++;
}

static void
list_private(RunBuilder *builder, TIDBitmap *tbm)
{
	TBMIterator *iterator = tbm_begin_iterate(tbm);
	TBMIterateResult *page;

	while ((page = tbm_iterate(iterator)) != NULL)
		add_block(builder, page->blockno);
	tbm_end_iterate(iterator);
}

/* A bitmap that workers share lies in their common memory and has iterators of its own, of which it can give one more. */
static void
list_shared(RunBuilder *builder, TIDBitmap *tbm, dsa_area *dsa)
{
	dsa_pointer state = tbm_prepare_shared_iterate(tbm);
	TBMSharedIterator *iterator = tbm_attach_shared_iterate(dsa, state);
	TBMIterateResult *page;

	while ((page = tbm_shared_iterate(iterator)) != NULL)
		add_block(builder, page->blockno);
	tbm_end_shared_iterate(iterator);
	tbm_free_shared_area(dsa, state);
}

static void
register_bitmap(ObservedScan *observed)
{
	BitmapHeapScanState *node = observed->node;
	RunBuilder	builder = {.room = 64};

	builder.runs = palloc(builder.room * sizeof(PredictorRun));
	if (node->pstate)
		list_shared(&builder, node->tbm, node->ss.ps.state->es_query_dsa);
	else
		list_private(&builder, node->tbm);
	if (builder.blocks >= LEAST_BLOCKS)
		register_runs(&observed->registration, builder.runs, builder.count, builder.blocks);
	pfree(builder.runs);
}

/* At the first block of an execution, or when the scan goes on after it was suspended. */
static void
announce(ObservedScan *observed)
{
	MemoryContext before = MemoryContextSwitchTo(observed->node->ss.ps.state->es_query_cxt);

	observed->announced = true;
	if (observed->node->tbm)
		register_bitmap(observed);
	else
		observed->joins = observed->node->pstate != NULL;
	MemoryContextSwitchTo(before);
}

/* Tells where the scan is before it reads a block. Whether it is worth to look at what the read does. */
static bool
before_block(ObservedScan *observed, BlockNumber block)
{
	Registration *registration = &observed->registration;
	bool		was_registered = registration->scan != NO_SCAN;

	if (!pagecast_enabled)
	{
		if (was_registered)
			registration_finish(registration);
		return false;
	}
	if (!observed->announced)
		announce(observed);
	else if (was_registered && !registration_reach(registration, block))
		announce(observed);
	if (observed->joins && registration->scan == NO_SCAN)
		observed->joins = !registration_join(registration);
	return registration->scan != NO_SCAN;
}

static bool
scan_bitmap_next_block(TableScanDesc scan, TBMIterateResult *page)
{
	ObservedScan *observed = enter(scan);
	bool		watched = before_block(observed, page->blockno);
	int64		read = pgBufferUsage.shared_blks_read;
	bool		found = GetHeapamTableAmRoutine()->scan_bitmap_next_block(scan, page);

	if (watched)
	{
		Buffer		buffer = ((HeapScanDesc) scan)->rs_cbuf;

		read = pgBufferUsage.shared_blks_read - read;
		/* A block past the end, or one of which no tuple is needed, was not read; the buffer is then that of another. */
		if (BufferIsValid(buffer) && BufferGetBlockNumber(buffer) == page->blockno)
			registration_count(&observed->registration, page->blockno, buffer, read > 0);
		if (read > 0)
			make_room();
	}
	leave(scan, observed);
	return found;
}

static bool
scan_bitmap_next_tuple(TableScanDesc scan, TBMIterateResult *page, TupleTableSlot *slot)
{
	ObservedScan *observed = enter(scan);
	bool		found = GetHeapamTableAmRoutine()->scan_bitmap_next_tuple(scan, page, slot);

	leave(scan, observed);
	return found;
}

/* The next execution has another bitmap. */
static void
scan_rescan(TableScanDesc scan, ScanKey key, bool set_params, bool allow_strat, bool allow_sync, bool allow_pagemode)
{
	ObservedScan *observed = enter(scan);

	registration_finish(&observed->registration);
	observed->announced = observed->joins = false;
	GetHeapamTableAmRoutine()->scan_rescan(scan, key, set_params, allow_strat, allow_sync, allow_pagemode);
	leave(scan, observed);
}

static void
scan_end(TableScanDesc scan)
{
	ObservedScan *observed = enter(scan);

	registration_finish(&observed->registration);
	GetHeapamTableAmRoutine()->scan_end(scan);
}

/* The memory of the query goes, after its end or after an error. */
static void
query_ended(void *argument)
{
	ObservedScan *observed = argument;

	registration_finish(&observed->registration);
	stand_in_release(&observed->stand_in);
}

/* Puts an observer under a bitmap scan that has not begun. */
void
observe_bitmap_scan(BitmapHeapScanState *node)
{
	Relation	relation = node->ss.ss_currentRelation;
	TableScanDesc scan;
	ObservedScan *observed;

	if (relation->rd_tableam != GetHeapamTableAmRoutine() || RelationUsesLocalBuffers(relation) ||
		(scan = bitmap_scan_descriptor(node)) == NULL || scan->rs_rd != relation)
		return;
	if (observing.type != T_TableAmRoutine)
	{
		observing = *GetHeapamTableAmRoutine();
		observing.scan_bitmap_next_block = scan_bitmap_next_block;
		observing.scan_bitmap_next_tuple = scan_bitmap_next_tuple;
		observing.scan_rescan = scan_rescan;
		observing.scan_end = scan_end;
	}
	observed = MemoryContextAllocZero(node->ss.ps.state->es_query_cxt, sizeof(ObservedScan));
	stand_in_for(&observed->stand_in, &observed->form, relation, &observing);
	observed->relation = relation;
	observed->node = node;
	registration_init(&observed->registration, SCAN_BITMAP, relation, node->ss.ps.plan->plan_node_id);
	observed->ended.func = query_ended;
	observed->ended.arg = observed;
	MemoryContextRegisterResetCallback(node->ss.ps.state->es_query_cxt, &observed->ended);
	scan->rs_rd = &observed->stand_in;
}

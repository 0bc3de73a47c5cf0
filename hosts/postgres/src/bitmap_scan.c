/*
 * Bitmap heap scans, registered exactly once their bitmap is built.
 *
 * Source: Khalaji et al. 2025, section 4.4.1. Between two calls of the heap's access method the
 * scan's relation is a stand-in (version.c) that leads here; for the call itself the true relation
 * is put back. So nothing but this scan is touched: no entry of the relation cache, no plan node,
 * no function that the heap compares. At the first block the bitmap is there and nothing of the
 * heap is read yet; a second iterator lists its blocks.
 *
 * In a parallel plan the process that has built the bitmap registers it, the others join: all
 * report the blocks that they come to, and the furthest counts. Whoever reads the last block ends
 * the scan: the node above may go on for long. Race: where the others have read all of a short
 * bitmap before it was registered, nobody does, and the scan is suspended as an idle one.
 *
 * While the pool is calm (sampling.c) the scan rests: it has its true relation back, and a timer
 * looks where it is. A new bitmap shows by its address or by a block that lies further back.
 *
 * Cost: two stores and a call for each tuple, about a microsecond for each block; nothing while the
 * scan rests. A bitmap of fewer than LEAST_BLOCKS blocks is not worth it and runs as always.
 */
#include "recurring.h"
#include "sampling.h"

#include "access/tableam.h"
#include "executor/instrument.h"
#include "miscadmin.h"

#define LEAST_BLOCKS 32

struct ObservedBitmap
{
	RelationData stand_in;		/* first: the scan's rs_rd points to it, and so to all of this */
	FormData_pg_class form;
	Relation	relation;
	BitmapHeapScanState *node;
	Registration registration;
	bool		announced;		/* this execution was offered to the predictor */
	bool		joins;			/* a parallel worker that has not found its scan yet */
	bool		rests;			/* the scan has its true relation for now */
	Calm		calm;
	NodeCall	call;			/* to go on after a rest */
	SampledScan sampled;
	TIDBitmap  *bitmap;			/* resting: that it goes through */
	BlockNumber place;			/* resting: where it was when last looked at */
	MemoryContextCallback ended;
};

static TableAmRoutine observing;
static const TableAmRoutine *heap;

/* For a call of the heap the scan has its true relation. */
ObservedBitmap *
bitmap_enter(TableScanDesc scan)
{
	ObservedBitmap *observed = (ObservedBitmap *) scan->rs_rd;

	scan->rs_rd = observed->relation;
	return observed;
}

void
bitmap_leave(TableScanDesc scan, ObservedBitmap *observed)
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
	BlockNumber end;			/* of the table to the scan; what lies behind is not read */
} RunBuilder;

static void
add_block(void *list, BlockNumber block)
{
	RunBuilder *builder = list;
	PredictorRun *last = builder->count > 0 ? &builder->runs[builder->count - 1] : NULL;

	if (block >= builder->end)
		return;
	if (last && block == last->first + last->blocks)
	{
		last->blocks++;
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
register_bitmap(ObservedBitmap *observed)
{
	BitmapHeapScanState *node = observed->node;
	RunBuilder	builder = {.room = 64, .end = ((HeapScanDesc) node->ss.ss_currentScanDesc)->rs_nblocks};

	builder.runs = palloc(builder.room * sizeof(PredictorRun));
	list_bitmap(node, add_block, &builder);
	sampling_finish_ended();
	recurring_name(&observed->registration, &node->ss.ps, ((BitmapHeapScan *) node->ss.ps.plan)->bitmapqualorig);
	if (builder.blocks >= LEAST_BLOCKS)
		register_runs(&observed->registration, builder.runs, builder.count, builder.blocks);
	pfree(builder.runs);
}

/* At the first block of an execution, or when the scan goes on after it was suspended. */
static void
announce(ObservedBitmap *observed)
{
	MemoryContext before = MemoryContextSwitchTo(observed->node->ss.ps.state->es_query_cxt);

	observed->announced = true;
	if (observed->node->tbm)
		register_bitmap(observed);
	else
		observed->joins = observed->node->pstate != NULL;
	MemoryContextSwitchTo(before);
}

/* Whether a resting scan has begun anew. */
static bool
began_anew(const ObservedBitmap *observed)
{
	return observed->node->tbm != observed->bitmap ||
		((HeapScanDesc) observed->node->ss.ss_currentScanDesc)->rs_cblock < observed->place;
}

static inline ObservedBitmap *
observed_of(const SampledScan *sampled)
{
	return (ObservedBitmap *) ((char *) sampled - offsetof(ObservedBitmap, sampled));
}

static bool
has_ended(const SampledScan *sampled)
{
	const ObservedBitmap *observed = observed_of(sampled);

	return !began_anew(observed) &&
		((HeapScanDesc) observed->node->ss.ss_currentScanDesc)->rs_cblock == observed->registration.last;
}

/* What is not registered waits for the next bitmap only. */
static void
look(SampledScan *sampled)
{
	ObservedBitmap *observed = observed_of(sampled);
	Registration *registration = &observed->registration;
	BlockNumber block = ((HeapScanDesc) observed->node->ss.ss_currentScanDesc)->rs_cblock;
	bool		goes_on = !began_anew(observed);

	if (goes_on && registration->scan != NO_SCAN)
		goes_on = (block == observed->place || registration_reach(registration, block)) && calm_lasts(&observed->calm) &&
			pagecast_enabled;
	if (goes_on)
		observed->place = block;
	else
		node_call_arm(&observed->call);
}

static const SampledScanRoutine routine = {.look = look, .has_ended = has_ended};

/* After a block during which nothing of the observer was needed. */
static void
rest(ObservedBitmap *observed, BlockNumber block)
{
	observed->rests = true;
	observed->bitmap = observed->node->tbm;
	observed->place = block;
	sampling_begin(&observed->sampled, observed->node->ss.ps.state, &observed->registration, &routine);
}

/* Before the heap goes on to a block. Whether the scan is registered. */
bool
bitmap_goes_on(ObservedBitmap *observed)
{
	Registration *registration = &observed->registration;

	if (!pagecast_enabled)
	{
		if (registration->scan != NO_SCAN)
			registration_finish(registration);
		return false;
	}
	if (!observed->announced)
		announce(observed);
	if (observed->joins && registration->scan == NO_SCAN)
		observed->joins = !registration_join(registration);
	return registration->scan != NO_SCAN;
}

/* Tells where a registered scan is. One that was suspended registers again. Whether it is
 * registered still. */
bool
bitmap_comes_to(ObservedBitmap *observed, BlockNumber block)
{
	Registration *registration = &observed->registration;
	uint64		scan = registration->scan;

	if (!registration_reach(registration, block) && !scan_has_ended(scan))
		announce(observed);
	return registration->scan != NO_SCAN;
}

/* What a registered scan has found and read. */
void
bitmap_count(ObservedBitmap *observed, int64 found, int64 read)
{
	observed->registration.hits += found;
	observed->registration.reads += read;
	if (read > 0)
		make_room(read);
}

/* A registered scan has all blocks up to the end behind it. */
void
bitmap_end(ObservedBitmap *observed)
{
	registration_end(&observed->registration);
}

/* A registered scan is done with reading `block`. If it had to, it holds it in `buffer`; `came_in`
 * if it is known to have come from disk. */
void
bitmap_has_read(ObservedBitmap *observed, BlockNumber block, Buffer buffer, bool came_in)
{
	if (BufferIsValid(buffer))
		registration_count(&observed->registration, block, buffer, came_in);
	if (block == observed->registration.last)
		bitmap_end(observed);
}

/* After the heap has gone on to a block. */
void
bitmap_leave_or_rest(TableScanDesc scan, ObservedBitmap *observed, bool watched)
{
	if (watched && calm_has_come(&observed->calm))
		rest(observed, ((HeapScanDesc) scan)->rs_cblock);
	else
		bitmap_leave(scan, observed);
}

/* The next execution has another bitmap. */
static void
scan_rescan(TableScanDesc scan, ScanKey key, bool set_params, bool allow_strat, bool allow_sync, bool allow_pagemode)
{
	ObservedBitmap *observed = bitmap_enter(scan);

	registration_finish(&observed->registration);
	observed->announced = observed->joins = false;
	heap->scan_rescan(scan, key, set_params, allow_strat, allow_sync, allow_pagemode);
	bitmap_leave(scan, observed);
}

static void
scan_end(TableScanDesc scan)
{
	ObservedBitmap *observed = bitmap_enter(scan);

	registration_finish(&observed->registration);
	heap->scan_end(scan);
}

/* The memory of the query goes, after its end or after an error. */
static void
query_ended(void *argument)
{
	ObservedBitmap *observed = argument;

	sampling_stop(&observed->sampled);
	registration_finish(&observed->registration);
	node_call_remove(&observed->call);
	stand_in_release(&observed->stand_in);
}

/* Before the first tuple, and after a rest. */
static void
begin(NodeCall *call)
{
	ObservedBitmap *observed = (ObservedBitmap *) ((char *) call - offsetof(ObservedBitmap, call));
	TableScanDesc scan = bitmap_scan_descriptor(observed->node);

	if (observed->rests)
	{
		sampling_stop(&observed->sampled);
		observed->rests = false;
		observed->calm.blocks = 0;
		if (began_anew(observed))
			registration_finish(&observed->registration);
		if (observed->registration.scan == NO_SCAN)
			observed->announced = observed->joins = false;
	}
	if (scan != NULL && scan->rs_rd == observed->relation)
		scan->rs_rd = &observed->stand_in;
}

/* Has a bitmap scan that has not begun observed when it does. */
void
observe_bitmap_scan(BitmapHeapScanState *node)
{
	Relation	relation = node->ss.ss_currentRelation;
	ObservedBitmap *observed;

	if (relation->rd_tableam != GetHeapamTableAmRoutine() || RelationUsesLocalBuffers(relation))
		return;
	if (observing.type != T_TableAmRoutine)
	{
		heap = GetHeapamTableAmRoutine();
		observing = *heap;
		bitmap_routine_init(&observing);
		observing.scan_rescan = scan_rescan;
		observing.scan_end = scan_end;
	}
	observed = MemoryContextAllocZero(node->ss.ps.state->es_query_cxt, sizeof(ObservedBitmap));
	stand_in_for(&observed->stand_in, &observed->form, relation, &observing);
	observed->relation = relation;
	observed->node = node;
	registration_init(&observed->registration, SCAN_BITMAP, relation, node->ss.ps.plan->plan_node_id);
	observed->ended.func = query_ended;
	observed->ended.arg = observed;
	MemoryContextRegisterResetCallback(node->ss.ps.state->es_query_cxt, &observed->ended);
	node_call_init(&observed->call, &node->ss.ps, begin);
}

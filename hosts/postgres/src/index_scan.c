/*
 * Index scans, and those index-only scans that must look at the table.
 *
 * Source: Khalaji et al. 2025, section 4.4.3. A scan nearly in the table's order (index_order.c) is
 * left to the server, for good: no timer and no observer. Registered, it gains with two streams and
 * loses with eight and more, and in the paper the clock is ahead with many.
 *
 * Of others it registers the entries that it will go through, and marks each page with the entry
 * that led to it: whoever comes through the same entries later, a trailing scan, is then expected
 * there (core's marks.rs says more). Entries are counted in the order of keys, ENTRIES to a unit,
 * from where the histogram has the scan's first key. As the histogram is coarse, a scan that finds
 * another's marks in its own order on NEIGHBOURS pages, no further off than the histogram may be
 * wrong, counts on from there.
 *
 * Deviations: a scan has to go forward, and a cursor that is scrolled back is not registered from
 * there on; nor are parallel scans. What a scan reads is left to the usage counts where no mark
 * says more, because it comes back to a page by another row.
 *
 * As in bitmap_scan.c a stand-in for the relation leads here, in IndexFetchTableData.rel, put there
 * before the first tuple (node_call.c). A scan registers when it has come to LEAST_BLOCKS blocks,
 * so that the many short ones inside of nested loops pay a few instructions for each; those of a
 * few rows are not even observed.
 *
 * Where everything is in the pool a scan across the table would pay for marks and counts with a
 * miss of the processor's cache for each row. So it marks only the PRESSED pages after each one
 * that was read from disk, and only there it looks whether what it finds was kept for it. While
 * steering stands aside it marks none. And while the pool is calm (sampling.c) the scan rests: it
 * has its true relation back, and a timer looks where it is, by the entries and executions that the
 * server counts of the index.
 *
 * Cost: two stores and a compare for each entry; for each change of block, about 0.1 microseconds;
 * nothing while the scan rests. 16 bytes for each mark.
 */
#include "sampling.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "executor/instrument.h"

#define LEAST_BLOCKS 32
/* Blocks that the planner expects of a scan worth to be observed. One row is 8 by its default
 * costs, and what depends on another table's rows is often taken for less than it is. */
#define LEAST_EXPECTED 12
#define ENTRIES 16
#define NEIGHBOURS 8
/* Pages after which nobody in front is looked for any more. */
#define SEARCHED 1024
/* Pages that are marked after one was read from disk. */
#define PRESSED 1024

typedef struct ObservedIndexScan
{
	RelationData stand_in;		/* first: IndexFetchTableData.rel points to it, and so to all of this */
	FormData_pg_class form;
	NodeCall	call;
	Relation	table;
	Relation	index;
	Registration registration;
	IndexOrder	order;
	BlockNumber block;			/* that the last entry led to */
	uint32		blocks;			/* come to in this execution, up to LEAST_BLOCKS */
	uint64		entries;		/* from the first key of the index, in the order of keys */
	uint32		unit;			/* that it was said to be in */
	int64		ahead;			/* units to the scan whose marks were met last */
	int			neighbours;		/* pages on which they said so */
	uint32		searched;
	uint32		pressed;		/* pages to be marked before the next read */
	bool		parallel;
	bool		backward;
	bool		rests;			/* the scan has its true relation for now */
	bool		along;			/* and for good: the index goes along the table, whatever the keys are */
	Calm		calm;
	SampledScan sampled;
	const IndexCounts *counts;	/* resting: what the server counts of the index, */
	int64		counted_scans,	/* and what it had counted when the rest began */
				counted_entries;
	MemoryContextCallback ended;
} ObservedIndexScan;

static TableAmRoutine observing;
static const TableAmRoutine *heap;

static inline ObservedIndexScan *
observed_of(NodeCall *call)
{
	return (ObservedIndexScan *) ((char *) call - offsetof(ObservedIndexScan, call));
}

static inline ObservedIndexScan *
enter(IndexFetchTableData *fetch)
{
	ObservedIndexScan *observed = (ObservedIndexScan *) fetch->rel;

	fetch->rel = observed->table;
	return observed;
}

static inline void
leave(IndexFetchTableData *fetch, ObservedIndexScan *observed)
{
	fetch->rel = &observed->stand_in;
}

/* What the three kinds of fields of the two nodes are. */
typedef struct IndexNode
{
	IndexScanDesc *scan;
	Relation	index;
	ScanKey		keys,
				order_keys;
	int			key_count,
				order_count;
	bool		keys_ready;
	ScanDirection direction;
} IndexNode;

static IndexNode
index_node(PlanState *state)
{
	if (IsA(state, IndexScanState))
	{
		IndexScanState *node = (IndexScanState *) state;

		return (IndexNode) {&node->iss_ScanDesc, node->iss_RelationDesc, node->iss_ScanKeys, node->iss_OrderByKeys,
			node->iss_NumScanKeys, node->iss_NumOrderByKeys, node->iss_NumRuntimeKeys == 0 || node->iss_RuntimeKeysReady,
			((IndexScan *) state->plan)->indexorderdir};
	}
	else
	{
		IndexOnlyScanState *node = (IndexOnlyScanState *) state;

		return (IndexNode) {&node->ioss_ScanDesc, node->ioss_RelationDesc, node->ioss_ScanKeys, node->ioss_OrderByKeys,
			node->ioss_NumScanKeys, node->ioss_NumOrderByKeys, node->ioss_NumRuntimeKeys == 0 || node->ioss_RuntimeKeysReady,
			((IndexOnlyScan *) state->plan)->indexorderdir};
	}
}

/* By a cursor: what it will read is then behind it. */
static inline bool
scrolls_back(const ObservedIndexScan *observed)
{
	return ScanDirectionIsBackward(observed->call.node->state->es_direction);
}

/* Of all entries. */
static inline double
units_of(const ObservedIndexScan *observed)
{
	return Max(observed->table->rd_rel->reltuples, 0) / ENTRIES;
}

static bool
register_trailing_scan(ObservedIndexScan *observed)
{
	const IndexOrder *order = &observed->order;
	RelFileLocator locator = relation_locator(observed->index);
	uint32		first = observed->entries / ENTRIES;
	uint32		last = Min(order->to * units_of(observed), UINT32_MAX / 2);
	PredictorRun run = {first, last - first + 1, 0, last - first + 1};

	if (observed->parallel || order->keys_fall || last <= first)
		return false;
	observed->registration.axis = pagecast_relation_name(&locator);
	return register_runs(&observed->registration, &run, 1, run.blocks);
}

/* Registers a scan that looks as if it would go on. */
static void
register_scan(ObservedIndexScan *observed)
{
	IndexNode	node = index_node(observed->call.node);

	if (!index_order(&observed->order, observed->index, observed->table, node.keys, node.key_count, observed->backward))
		return;
	if (predictor_scatter(observed->order.correlation, RelationGetNumberOfBlocks(observed->table)) != UINT64_MAX)
	{
		observed->along = true;
		return;
	}
	sampling_finish_ended();
	observed->entries = (uint64) (observed->order.from * units_of(observed)) * ENTRIES;
	observed->neighbours = observed->searched = observed->ahead = 0;
	register_trailing_scan(observed);
}

/* Looks for a scan in front by the mark that it has left on a page, and then counts as that one
 * does. */
static void
follow(ObservedIndexScan *observed, BlockNumber block)
{
	uint32		unit = observed->entries / ENTRIES;
	int64		most = observed->order.error * units_of(observed) + NEIGHBOURS;
	uint32		marked;
	int64		ahead;

	observed->searched++;
	if (!predictor_marked(predictor, observed->registration.name, block, observed->registration.axis, unit + observed->ahead, &marked))
		return;
	ahead = (int64) marked - unit;
	if (ahead < -most || ahead > most)
		return;
	if (ahead < observed->ahead - 1 || ahead > observed->ahead + 1)
		observed->neighbours = 0;
	observed->ahead = ahead;
	if (++observed->neighbours < NEIGHBOURS)
		return;
	observed->searched = SEARCHED;
	if (ahead == 0)
		return;
	registration_finish(&observed->registration);
	observed->entries = (uint64) marked * ENTRIES;
	register_trailing_scan(observed);
}

static void
trail(ObservedIndexScan *observed, BlockNumber block)
{
	Registration *registration = &observed->registration;
	uint32		unit;

	if (observed->searched < SEARCHED)
		follow(observed, block);
	if (registration->scan == NO_SCAN)
		return;
	unit = observed->entries / ENTRIES;
	if (observed->pressed > 0)
	{
		observed->pressed--;
		predictor_mark(predictor, registration->name, block, registration->axis, unit);
	}
	/* The clock is read once in a unit only: it costs as much as the rest. */
	if (unit != observed->unit && !registration_reach(registration, unit))
		register_trailing_scan(observed);
	observed->unit = unit;
}

/* The scan comes to another block than before. Whether it is registered. */
static bool
change_block(ObservedIndexScan *observed, BlockNumber block)
{
	Registration *registration = &observed->registration;

	observed->block = block;
	if (observed->blocks < LEAST_BLOCKS)
	{
		if (++observed->blocks == LEAST_BLOCKS && pagecast_enabled && !scrolls_back(observed))
			register_scan(observed);
	}
	else if (registration->scan == NO_SCAN)
		return false;
	else if (!pagecast_enabled || scrolls_back(observed))
		registration_finish(registration);
	else
		trail(observed, block);
	return registration->scan != NO_SCAN;
}

static void
begin_anew(ObservedIndexScan *observed)
{
	if (observed->registration.scan != NO_SCAN)
		registration_finish(&observed->registration);
	observed->blocks = 0;
	observed->block = InvalidBlockNumber;
}

/* Entries that the scan has come to, as far as they are counted. */
static uint64
entries_now(const ObservedIndexScan *observed)
{
	if (!observed->rests)
		return observed->entries;
	return observed->entries + Max(index_entries(observed->counts) - observed->counted_entries, 0);
}

static inline ObservedIndexScan *
sampled_of(const SampledScan *sampled)
{
	return (ObservedIndexScan *) ((char *) sampled - offsetof(ObservedIndexScan, sampled));
}

/* At its last entry the index gives back the buffer of the table, as it does when it goes back to a
 * place that it has marked: that one registers again when it goes on. */
static bool
has_ended(const SampledScan *sampled)
{
	IndexScanDesc scan = *index_node(sampled_of(sampled)->call.node).scan;

	return !BufferIsValid(((IndexFetchHeapData *) scan->xs_heapfetch)->xs_cbuf);
}

/* What is not registered waits for the next execution only. */
static void
look(SampledScan *sampled)
{
	ObservedIndexScan *observed = sampled_of(sampled);
	Registration *registration = &observed->registration;
	bool		goes_on = index_scans(observed->counts) == observed->counted_scans;

	if (goes_on && registration->scan != NO_SCAN)
	{
		uint32		unit = entries_now(observed) / ENTRIES;

		if (unit != observed->unit)
			goes_on = registration_reach(registration, unit);
		observed->unit = unit;
		goes_on = goes_on && calm_lasts(&observed->calm) && pagecast_enabled && !scrolls_back(observed);
	}
	if (!goes_on)
		node_call_arm(&observed->call);
}

static const SampledScanRoutine routine = {.look = look, .has_ended = has_ended};

/* After a block during which nothing of the observer was needed. Whether the server counts what has
 * to be known. */
static bool
rest(ObservedIndexScan *observed)
{
	observed->counts = observed->index->pgstat_info;
	if (observed->counts == NULL)
		return false;
	observed->rests = true;
	observed->counted_scans = index_scans(observed->counts);
	observed->counted_entries = index_entries(observed->counts);
	sampling_begin(&observed->sampled, observed->call.node->state, &observed->registration, &routine);
	return true;
}

/* Before the next tuple after a rest. */
static void
go_on(ObservedIndexScan *observed)
{
	sampling_stop(&observed->sampled);
	observed->entries = entries_now(observed);
	observed->rests = false;
	observed->calm.blocks = 0;
	if (index_scans(observed->counts) != observed->counted_scans)
		begin_anew(observed);
	else if (observed->registration.scan == NO_SCAN)
		observed->blocks = LEAST_BLOCKS - 1;	/* suspended */
}

static bool
index_fetch_tuple(IndexFetchTableData *fetch, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot, bool *call_again,
				  bool *all_dead)
{
	ObservedIndexScan *observed = enter(fetch);
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	int64		read = pgBufferUsage.shared_blks_read;
	bool		changed = block != observed->block;
	bool		watched = changed && change_block(observed, block);
	uint64		began = watched ? block_begins() : 0;
	bool		found = heap->index_fetch_tuple(fetch, tid, snapshot, slot, call_again, all_dead);

	observed->entries++;
	if (watched)
	{
		read = pgBufferUsage.shared_blks_read - read;
		block_ends(began, read);
		if (read == 0 && observed->pressed > 0 && found)
			registration_count_found(&observed->registration, block, ((IndexFetchHeapData *) fetch)->xs_cbuf);
		else if (read == 0)
			observed->registration.hits++;
		else
		{
			observed->registration.reads++;
			observed->pressed = make_room(read) ? PRESSED : 0;
		}
	}
	if (!observed->along && (!watched || !calm_has_come(&observed->calm) || !rest(observed)))
		leave(fetch, observed);
	return found;
}

/* The scan has come to its end, begins anew, or goes back to a place that it has marked. */
static void
index_fetch_reset(IndexFetchTableData *fetch)
{
	ObservedIndexScan *observed = enter(fetch);

	begin_anew(observed);
	heap->index_fetch_reset(fetch);
	leave(fetch, observed);
}

static void
index_fetch_end(IndexFetchTableData *fetch)
{
	ObservedIndexScan *observed = enter(fetch);

	registration_finish(&observed->registration);
	heap->index_fetch_end(fetch);
}

/* Before the first tuple, and after a rest. */
static void
begin(NodeCall *call)
{
	ObservedIndexScan *observed = observed_of(call);
	IndexNode	node = index_node(call->node);
	IndexScanDesc scan = *node.scan;

	if (observed->rests)
		go_on(observed);
	/* As IndexNext() and IndexOnlyNext() do. */
	if (scan == NULL)
	{
		scan = *node.scan = begin_index_scan(call->node, observed->table, node.index, node.key_count, node.order_count);
		if (IsA(call->node, IndexOnlyScanState))
		{
			scan->xs_want_itup = true;
			((IndexOnlyScanState *) call->node)->ioss_VMBuffer = InvalidBuffer;
		}
		if (node.keys_ready)
			index_rescan(scan, node.keys, node.key_count, node.order_keys, node.order_count);
	}
	if (scan->xs_heapfetch == NULL || scan->xs_heapfetch->rel != observed->table)
		return;
	observed->index = node.index;
	observed->parallel = scan->parallel_scan != NULL;
	observed->backward = ScanDirectionIsBackward(node.direction);
	scan->xs_heapfetch->rel = &observed->stand_in;
}

/* The memory of the query goes, after its end or after an error. */
static void
query_ended(void *argument)
{
	ObservedIndexScan *observed = argument;

	sampling_stop(&observed->sampled);
	registration_finish(&observed->registration);
	node_call_remove(&observed->call);
	stand_in_release(&observed->stand_in);
}

/* An index-only scan reads the table only where not all rows are visible to everybody. */
static bool
looks_at_table(ScanState *node)
{
	Form_pg_class table = node->ss_currentRelation->rd_rel;

	return IsA(node, IndexScanState) || table->relallvisible < table->relpages / 2;
}

/* Has an index scan that has not begun observed when it does. */
void
observe_index_scan(ScanState *node)
{
	Relation	relation = node->ss_currentRelation;
	ObservedIndexScan *observed;

	if (relation->rd_tableam != GetHeapamTableAmRoutine() || RelationUsesLocalBuffers(relation) ||
		!reads_blocks(node->ps.plan, LEAST_EXPECTED) || !looks_at_table(node))
		return;
	if (observing.type != T_TableAmRoutine)
	{
		heap = GetHeapamTableAmRoutine();
		observing = *heap;
		observing.index_fetch_tuple = index_fetch_tuple;
		observing.index_fetch_reset = index_fetch_reset;
		observing.index_fetch_end = index_fetch_end;
	}
	observed = MemoryContextAllocZero(node->ps.state->es_query_cxt, sizeof(ObservedIndexScan));
	stand_in_for(&observed->stand_in, &observed->form, relation, &observing);
	observed->table = relation;
	observed->block = InvalidBlockNumber;
	registration_init(&observed->registration, SCAN_TRAILING, relation, node->ps.plan->plan_node_id);
	node_call_init(&observed->call, &node->ps, begin);
	observed->ended.func = query_ended;
	observed->ended.arg = observed;
	MemoryContextRegisterResetCallback(node->ps.state->es_query_cxt, &observed->ended);
}

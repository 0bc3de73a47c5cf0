/*
 * Sequential scans, registered so that others find in the pool what these will read soon, or have
 * just brought in for them. Their path, their ring of buffers and their read-ahead stay as they
 * are.
 *
 * Source: Khalaji et al. 2025, section 4.4.1. Deviation: the scan tells nothing. A timer looks
 * where it is (sampling.c), so that a tuple costs nothing at all, filtered out or not; the paper's
 * own server reports at each block. A block number is read whole. A scan that began anew or was
 * suspended is told to register again before its next tuple (node_call.c).
 *
 * A synchronized start wraps: blocks from the start to the end come first, those before the start
 * behind them. The workers of a parallel scan share one registration: the first registers, the
 * others join, the furthest counts.
 *
 * What the scan has found and read is taken from the server's own counts of the table when the
 * query ends, for as many blocks as the scan has gone through. A cursor that is scrolled back is
 * not registered from there on.
 *
 * Suits tables that several queries read. One of fewer than LEAST_BLOCKS blocks is not worth it.
 * Cost: a microsecond or two a scan, and as much at each look. It steers nobody's hand: most of its
 * reads go through its ring.
 */
#include "recurring.h"
#include "sampling.h"

#include "access/tableam.h"
#include "catalog/catalog.h"
#include "miscadmin.h"

#define LEAST_BLOCKS 256

typedef struct SequentialScan
{
	NodeCall	call;			/* first: what node_call.c hands back */
	SampledScan sampled;
	Registration registration;
	BlockNumber start;			/* where its axis begins */
	BlockNumber blocks;
	BlockNumber place;			/* on the axis, when last looked at */
	int64		fetched,		/* of the table by this process, when the scan was registered */
				found;
	bool		parallel;
	bool		may_cooperate;
	const PlanState *gather;	/* under which it runs, in the process that leads a parallel plan */
	CooperativeScan cooperative;
	MemoryContextCallback ended;
} SequentialScan;

static inline HeapScanDesc
heap_scan(SequentialScan *observed)
{
	return (HeapScanDesc) ((SeqScanState *) observed->call.node)->ss.ss_currentScanDesc;
}

static inline SequentialScan *
observed_of(const SampledScan *sampled)
{
	return (SequentialScan *) ((char *) sampled - offsetof(SequentialScan, sampled));
}

/* Behind its last row the scan has no place any more, and keeps the row's name until it begins
 * anew. Of workers this is the first that finds no more blocks. */
static bool
has_ended(const SampledScan *sampled)
{
	const HeapScanDesc scan = heap_scan(observed_of(sampled));

	return !scan->rs_inited && ItemPointerIsValid(&scan->rs_ctup.t_self);
}

static void
look(SampledScan *sampled)
{
	SequentialScan *observed = observed_of(sampled);
	HeapScanDesc scan = heap_scan(observed);
	BlockNumber block = scan->rs_cblock;
	BlockNumber place;
	bool		known;

	if (!scan->rs_inited || block >= observed->blocks)
		return;
	place = (block + observed->blocks - observed->start) % observed->blocks;
	/* One that rests, a cursor, is to be suspended in the end. */
	if (place == observed->place)
		return;
	known = observed->registration.scan != NO_SCAN && registration_sample(&observed->registration, place);
	/* A parallel scan loses its registration when whoever registered it finds no more blocks, and
	 * then there are none. */
	if ((!known && !observed->parallel) || place < observed->place || !pagecast_enabled)
		node_call_arm(&observed->call);
	observed->place = place;
}

/* The block that a scan starts with; in a parallel one it is chosen by whoever asks first. */
static BlockNumber
start_of(HeapScanDesc scan)
{
	ParallelBlockTableScanDesc parallel = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;
	ParallelBlockTableScanWorkerData unused;

	if (parallel == NULL)
		return scan->rs_startblock;
	table_block_parallelscan_startblock_init(scan->rs_base.rs_rd, &unused, parallel);
	return parallel->phs_startblock;
}

static bool
register_scan(SequentialScan *observed)
{
	HeapScanDesc scan = heap_scan(observed);
	BlockNumber behind;
	PredictorRun runs[2];
	size_t		count = 0;

	observed->blocks = scan->rs_nblocks;
	observed->parallel = scan->rs_base.rs_parallel != NULL;
	if (observed->blocks < LEAST_BLOCKS)
		return false;
	sampling_finish_ended();
	observed->start = start_of(scan);
	if (observed->start >= observed->blocks)
		return false;
	behind = observed->blocks - observed->start;
	if (observed->start > 0)
		runs[count++] = (PredictorRun) {0, observed->start, behind, observed->start};
	runs[count++] = (PredictorRun) {observed->start, behind, 0, behind};
	return register_shared_runs(&observed->registration, runs, count, observed->blocks, observed->parallel);
}

static const PgStat_TableStatus *
table_counts(const SequentialScan *observed)
{
	return ((SeqScanState *) observed->call.node)->ss.ss_currentRelation->pgstat_info;
}

/*
 * Counts the blocks since the scan was registered, when it has ended or its query does. Other scans
 * of the table in the same query count there, too: then the share of those found is that of all.
 * One that began anew has lost its place, and workers have one place together: of these all blocks
 * count.
 */
static void
count_blocks(SampledScan *sampled)
{
	SequentialScan *observed = observed_of(sampled);
	const PgStat_TableStatus *counts = table_counts(observed);
	int64		fetched = counts ? table_fetched(counts) - observed->fetched : 0;
	int64		place = has_ended(sampled) ? observed->blocks : observed->place;
	int64		blocks = observed->parallel || place == 0 ? fetched : Min(fetched, place);
	int64		found;

	if (fetched <= 0)
		return;
	found = blocks * (table_found(counts) - observed->found) / fetched;
	observed->registration.hits += found;
	observed->registration.reads += blocks - found;
}

static const SampledScanRoutine routine = {.look = look, .has_ended = has_ended, .end = count_blocks};

/* Before the first tuple, and whenever the timer has found that the scan must register again. */
static void
begin(NodeCall *call)
{
	SequentialScan *observed = (SequentialScan *) call;
	SeqScanState *node = (SeqScanState *) call->node;

	sampling_stop(&observed->sampled);
	if (observed->registration.scan != NO_SCAN)
	{
		observed->place = 0;
		count_blocks(&observed->sampled);
	}
	registration_finish(&observed->registration);
	cooperative_scan_restart(&observed->cooperative);
	observed->registration.kind = SCAN_SEQUENTIAL;
	/* As SeqNext() does. */
	if (node->ss.ss_currentScanDesc == NULL)
		node->ss.ss_currentScanDesc = table_beginscan(node->ss.ss_currentRelation, node->ss.ps.state->es_snapshot, 0, NULL);
	if (!pagecast_enabled || ScanDirectionIsBackward(node->ss.ps.state->es_direction))
		return;
	if (observed->may_cooperate && cooperative_scan_begin(&observed->cooperative, call, &observed->registration, observed->gather))
		return;
	recurring_name(&observed->registration, &node->ss.ps, NIL);
	if (!register_scan(observed))
		return;
	observed->place = 0;
	observed->fetched = table_counts(observed) ? table_fetched(table_counts(observed)) : 0;
	observed->found = table_counts(observed) ? table_found(table_counts(observed)) : 0;
	sampling_begin(&observed->sampled, node->ss.ps.state, &observed->registration, &routine);
}

/* The memory of the query goes, after its end or after an error. */
static void
query_ended(void *argument)
{
	SequentialScan *observed = argument;

	sampling_stop(&observed->sampled);
	registration_finish(&observed->registration);
	cooperative_scan_end(&observed->cooperative);
	node_call_remove(&observed->call);
}

/* Has a sequential scan that has not begun register when it does. One whose rows have others looked
 * up reads in the order of blocks (executor.c). */
void
observe_sequential_scan(SeqScanState *node, const PlanState *gather, bool feeds_lookups)
{
	Relation	relation = node->ss.ss_currentRelation;
	bool		may_cooperate = RelationIsPermanent(relation) && !IsCatalogRelation(relation) &&
		(!feeds_lookups || pagecast_cooperation_forced);
	SequentialScan *observed;

	if (relation->rd_tableam != GetHeapamTableAmRoutine() || RelationUsesLocalBuffers(relation))
		return;
	if (!reads_blocks(node->ss.ps.plan, LEAST_BLOCKS) && !(may_cooperate && pagecast_cooperation_forced))
		return;
	observed = MemoryContextAllocZero(node->ss.ps.state->es_query_cxt, sizeof(SequentialScan));
	registration_init(&observed->registration, SCAN_SEQUENTIAL, relation, node->ss.ps.plan->plan_node_id);
	node_call_init(&observed->call, &node->ss.ps, begin);
	observed->may_cooperate = may_cooperate;
	observed->gather = gather;
	observed->ended.func = query_ended;
	observed->ended.arg = observed;
	MemoryContextRegisterResetCallback(node->ss.ps.state->es_query_cxt, &observed->ended);
}

/*
 * Sequential scans, registered so that others find in the pool what these will read soon, or have just brought in for them. Their path,
 * their ring of buffers and their read-ahead stay as they are.
 *
 * Source: Khalaji et al. 2025, section 4.4.1. Deviation: the scan tells nothing. A timer of the server (utils/timeout.h) looks
 * every SAMPLE_MS where it is, so that a tuple costs nothing at all, filtered out or not; the paper's own server reports at each block.
 * What is looked at is the process's own memory, between two instructions of the scan; a block number is read whole. A scan that began anew
 * or was suspended is told to register again before its next tuple (node_call.c). The timer runs while the executor does and a scan
 * is registered.
 *
 * A synchronized start wraps: blocks from the start to the end come first, those before the start behind them. The workers of a parallel
 * scan share one registration: the first registers, the others join, the furthest counts.
 *
 * Suits tables that several queries read. One of fewer than LEAST_BLOCKS blocks is not worth it. Cost: a microsecond or two a scan,
 * and as much every SAMPLE_MS. What the scan found and read is not counted, and it steers nobody's hand: most of its reads go
 * through its ring.
 */
#include "pg_pagecast.h"

#include "access/tableam.h"
#include "miscadmin.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#define LEAST_BLOCKS 256
#define SAMPLE_MS 10

typedef struct SequentialScan
{
	NodeCall	call;			/* first: what node_call.c hands back */
	struct SequentialScan *next;	/* of those that the timer looks at */
	Registration registration;
	BlockNumber start;			/* where its axis begins */
	BlockNumber blocks;
	BlockNumber place;			/* on the axis, when last looked at */
	bool		parallel;
	MemoryContextCallback ended;
} SequentialScan;

/* What the timer looks at. Its handler only reads the list, and what is taken from it is taken before anything of it goes. */
static SequentialScan *volatile sampled = NULL;
static TimeoutId timer = MAX_TIMEOUTS;

static inline HeapScanDesc
heap_scan(SequentialScan *observed)
{
	return (HeapScanDesc) ((SeqScanState *) observed->call.node)->ss.ss_currentScanDesc;
}

static void
stop_sampling(SequentialScan *observed)
{
	SequentialScan *volatile *at = &sampled;

	while (*at != NULL && *at != observed)
		at = (SequentialScan *volatile *) &(*at)->next;
	if (*at == observed)
		*at = observed->next;
	pg_compiler_barrier();
}

static void
sample(SequentialScan *observed)
{
	HeapScanDesc scan = heap_scan(observed);
	BlockNumber block = scan->rs_cblock;
	BlockNumber place = observed->place;
	bool		known;

	if (scan->rs_inited && block < observed->blocks)
		place = (block + observed->blocks - observed->start) % observed->blocks;
	else if (place > 0)
		place = observed->blocks;	/* it had begun, hence has ended */
	/* One that rests, a cursor, is to be suspended in the end. */
	if (place == observed->place)
		return;
	known = registration_sample(&observed->registration, place);
	/* A parallel scan loses its registration when whoever registered it finds no more blocks, and then there are none. */
	if ((!known && !observed->parallel) || place < observed->place || !pagecast_enabled)
		node_call_arm(&observed->call);
	observed->place = place;
}

/* In a signal handler. */
static void
sample_all(void)
{
	for (SequentialScan *observed = sampled; observed != NULL; observed = observed->next)
		sample(observed);
}

static void
start_timer(void)
{
	if (timer == MAX_TIMEOUTS)
		timer = RegisterTimeout(USER_TIMEOUT, sample_all);
	if (!get_timeout_active(timer))
		enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SAMPLE_MS), SAMPLE_MS);
}

/* When the executor begins to run. Whether the timer ran before, for sequential_scans_rest(). */
bool
sequential_scans_run(void)
{
	bool		ran = timer != MAX_TIMEOUTS && get_timeout_active(timer);

	if (sampled != NULL && !ran)
		start_timer();
	return ran;
}

/* When it returns; where the scans then are may be where they stay. After an error it does not, and the server stops all timers. */
void
sequential_scans_rest(bool ran)
{
	if (ran || timer == MAX_TIMEOUTS || !get_timeout_active(timer))
		return;
	disable_timeout(timer, false);
	sample_all();
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
	observed->start = start_of(scan);
	if (observed->start >= observed->blocks)
		return false;
	behind = observed->blocks - observed->start;
	if (observed->start > 0)
		runs[count++] = (PredictorRun) {0, observed->start, behind, observed->start};
	runs[count++] = (PredictorRun) {observed->start, behind, 0, behind};
	return register_shared_runs(&observed->registration, runs, count, observed->blocks, observed->parallel);
}

/* Before the first tuple, and whenever the timer has found that the scan must register again. */
static void
begin(NodeCall *call)
{
	SequentialScan *observed = (SequentialScan *) call;
	SeqScanState *node = (SeqScanState *) call->node;

	stop_sampling(observed);
	registration_finish(&observed->registration);
	/* As SeqNext() does. */
	if (node->ss.ss_currentScanDesc == NULL)
		node->ss.ss_currentScanDesc = table_beginscan(node->ss.ss_currentRelation, node->ss.ps.state->es_snapshot, 0, NULL);
	if (!pagecast_enabled || !register_scan(observed))
		return;
	observed->place = 0;
	observed->next = sampled;
	pg_compiler_barrier();
	sampled = observed;
	start_timer();
}

static void
end(SequentialScan *observed)
{
	stop_sampling(observed);
	registration_finish(&observed->registration);
	node_call_remove(&observed->call);
}

/* The memory of the query goes, after its end or after an error. */
static void
query_ended(void *argument)
{
	end(argument);
}

/* Before the executor ends a query, and with it the scans that the timer looks at. */
void
sequential_scans_end(EState *state)
{
	SequentialScan *next;

	for (SequentialScan *observed = sampled; observed != NULL; observed = next)
	{
		next = observed->next;
		if (observed->call.node->state == state)
			end(observed);
	}
}

/* Has a sequential scan that has not begun register when it does. */
void
observe_sequential_scan(SeqScanState *node)
{
	Relation	relation = node->ss.ss_currentRelation;
	SequentialScan *observed;

	if (relation->rd_tableam != GetHeapamTableAmRoutine() || RelationUsesLocalBuffers(relation) ||
		!reads_blocks(node->ss.ps.plan, LEAST_BLOCKS))
		return;
	observed = MemoryContextAllocZero(node->ss.ps.state->es_query_cxt, sizeof(SequentialScan));
	registration_init(&observed->registration, SCAN_SEQUENTIAL, relation, node->ss.ps.plan->plan_node_id);
	node_call_init(&observed->call, &node->ss.ps, begin);
	observed->ended.func = query_ended;
	observed->ended.arg = observed;
	MemoryContextRegisterResetCallback(node->ss.ps.state->es_query_cxt, &observed->ended);
}

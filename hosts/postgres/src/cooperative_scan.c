/*
 * Cooperative sequential scans: under an ordinary Seq Scan node the scan takes the chunks of its
 * table in the order that serves all scans of it.
 *
 * Source: Switakowski 2011, section 3.3, by the manager of the library (cooperation.c). Deviation:
 * there is no process that loads. Who is handed a chunk that is not in the pool reads it, and the
 * others take another until it is there.
 *
 * Way in: the node's scan is restricted to a stretch of blocks (version.h: directed_scan_to), as
 * TID range scans and BRIN's summaries restrict theirs. When it has come to the end of it the node
 * says that there are no more tuples, and we give it the next stretch. So what is read of a page,
 * visibility, predicate locks and pruning are the server's own, and a tuple costs one call more.
 * Stretches are shorter than chunks, so that the kernel can be asked for the next one in time.
 *
 * Which scans: those of permanent tables above pg_pagecast.cooperation_least, below a query that
 * only reads and returns rows. Not those below INSERT, CREATE TABLE AS, materialized views and
 * COPY, whose order of rows is seen on disk; nor under row locks; nor of cursors that can be
 * scrolled; nor those whose rows have others looked up (executor.c); nor where
 * synchronize_seqscans = off asks for the order of blocks. Workers are told by their leader in a
 * bit of the executor's flags (version.h), which go from him to them.
 *
 * The number of blocks is fixed when the scan begins, as stock's is. A rescan registers anew, and
 * its order is another one.
 *
 * Cost: one call a tuple that passes the node's condition; for each stretch a system call or two.
 */
#include "pg_pagecast.h"

#include "access/parallel.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "miscadmin.h"

/* Blocks that a scan reads between two looks. */
#define STRETCH 32
/* What is asked of the kernel at first: a query with LIMIT may need no more. */
#define FIRST_WINDOW 8

static CooperativeScan *last_scan = NULL;

/* Whether a query only reads, and nobody sees the order of its rows but who asked for them. */
static bool
has_no_order(const QueryDesc *query)
{
	const PlannedStmt *plan = query->plannedstmt;
	CommandDest dest = query->dest ? query->dest->mydest : DestNone;

	return query->snapshot != NULL && query->operation == CMD_SELECT && !plan->hasModifyingCTE && plan->rowMarks == NIL &&
		(query->estate->es_top_eflags & EXEC_FLAG_BACKWARD) == 0 && IsMVCCSnapshot(query->snapshot) &&
		dest != DestIntoRel && dest != DestTransientRel && dest != DestCopyOut;
}

/* Before a query runs: notes for its sequential scans that begin from now on, and for its workers',
 * whether they may cooperate. Earlier it is not known where the rows go. */
void
cooperative_scan_permit(QueryDesc *query)
{
	int		   *flags = &query->estate->es_top_eflags;

	if (IsParallelWorker())
		return;
	*flags &= ~FLAG_MAY_COOPERATE;
	if (pagecast_cooperation && synchronize_seqscans && has_no_order(query))
		*flags |= FLAG_MAY_COOPERATE;
}

/* Whether a table of so many blocks takes a good part of the pool. */
bool
is_large_table(BlockNumber blocks)
{
	return blocks > pagecast_cooperation_least * NBuffers;
}

/* Whether a table of so many blocks is worth it. */
static bool
is_large(BlockNumber blocks)
{
	if (pagecast_cooperation_forced)
		return blocks >= 2;
	return is_large_table(blocks) && blocks >= 256;
}

/* Registers what the scan has still to read, for the estimates of all scans. Where no chunk is left
 * to be handed out its registration has been ended, by whichever process of its plan found none. */
static void
tell_predictor(CooperativeScan *scan)
{
	Registration *registration = scan->registration;
	const Cooperation *cooperation = &scan->cooperation;

	if (!register_chunks(registration, cooperation->blocks, cooperation->size, is_parallel(&cooperation->parallel)))
		return;
	scan_slots[predictor_slot(registration->scan)].member = cooperation->member;
	for (uint32 chunk = 0; chunk < cooperation->chunks; chunk++)
	{
		if (cooperation_had(cooperation, chunk) && chunk != cooperation->held.number)
			registration_complete(registration, chunk);
	}
}

/* Whether a scan, prepared so far, reads as stock does: there is nothing to share, and a tuple
 * costs no call of ours. A parallel one whose other processes cooperate joins them. */
static bool
rests(const CooperativeScan *scan, ParallelTableScanDesc parallel)
{
	return !pagecast_cooperation_forced && cooperation_is_resident(&scan->cooperation) &&
		(parallel == NULL || !parallel_scan_is_taken(parallel));
}

/* The stretch has been read: how many of its blocks were in the pool, by the server's own counts.
 * Where another scan of the query reads the table too, the share is that of both. */
static void
count_blocks(CooperativeScan *scan)
{
	Registration *registration = scan->registration;
	const PgStat_TableStatus *counts = scan->cooperation.relation->pgstat_info;
	BlockNumber blocks = scan->next - scan->counted;
	int64		fetched;
	int64		found;

	scan->counted = scan->next;
	if (counts == NULL)
		return;
	fetched = table_fetched(counts) - scan->fetched;
	found = table_found(counts) - scan->found;
	scan->fetched += fetched;
	scan->found += found;
	if (fetched <= 0 || blocks == 0)
		return;
	blocks = Min(blocks, fetched);
	found = blocks * found / fetched;
	registration->hits += found;
	registration->reads += blocks - found;
}

/* Asks the kernel for blocks. A scan alone goes through its table in order, where the kernel reads
 * ahead by itself with half the processor time. */
static void
ask_for(CooperativeScan *scan, BlockNumber first, BlockNumber blocks)
{
	if (!cooperation_alone(&scan->cooperation))
		chunk_read_ahead(&scan->reader, first, blocks);
}

/* Asks for what the scan comes to after the next stretch, and for the next chunk. */
static void
read_ahead(CooperativeScan *scan)
{
	BlockNumber to = Min(scan->next + STRETCH + scan->window, scan->end);
	BlockNumber first,
				blocks;

	if (scan->ahead < to)
		ask_for(scan, scan->ahead, to - scan->ahead);
	scan->ahead = Max(scan->ahead, to);
	scan->window = Min(scan->window * 2, scan->cooperation.size);
	if (scan->ahead == scan->end && cooperation_ahead(&scan->cooperation, &first, &blocks) && scan->asked != first)
	{
		ask_for(scan, first, blocks);
		scan->asked = first;
	}
}

/* Has the scan read on, after a stretch. False if there is nothing left to read. */
static bool
next_stretch(CooperativeScan *scan)
{
	Registration *registration = scan->registration;
	BlockNumber blocks;

	count_blocks(scan);
	if (scan->next == scan->end)
	{
		BlockNumber size;
		/* A query with LIMIT does not get there. */
		bool		looks_ahead = scan->window == scan->cooperation.size;
		/* If not, it begins, or it had not moved and was suspended. */
		bool		known = scan->end != 0 && registration_complete(registration, scan->begin / scan->cooperation.size);

		if (!cooperation_next(&scan->cooperation, looks_ahead, &scan->begin, &size))
		{
			if (registration->scan != NO_SCAN)
				registration_end(registration);
			return false;
		}
		if (!known && scan->cooperation.left > 0)
			tell_predictor(scan);
		chunk_count(size, scan->cooperation.held.resident);
		scan->end = scan->begin + size;
		scan->next = scan->counted = scan->begin;
		scan->ahead = scan->asked == scan->begin ? scan->end : scan->begin;
		scan->asked = InvalidBlockNumber;
		scan->readable = scan->cooperation.held.resident;
	}
	else
	{
		bool		readable = !scan->readable && scan->next - scan->begin >= scan->cooperation.size / 2;

		cooperation_reach(&scan->cooperation, readable);
		scan->readable = scan->readable || readable;
	}
	read_ahead(scan);
	blocks = Min(STRETCH, scan->end - scan->next);
	directed_scan_to(&scan->directed, scan->next, blocks);
	scan->next += blocks;
	return true;
}

/* What a node reads; most often that which has had the last tuple. */
static inline CooperativeScan *
scan_of(PlanState *node)
{
	if (last_scan == NULL || last_scan->call->node != node)
		last_scan = node_call_of(node)->scan;
	return last_scan;
}

/* The node's next tuple. */
static TupleTableSlot *
next_tuple(PlanState *node)
{
	CooperativeScan *scan = scan_of(node);
	ExecProcNodeMtd original = scan->call->original;
	TupleTableSlot *slot;

	/* A rescan: the next execution may be another kind of scan. */
	if (unlikely(scan->directed.scan->rs_numblocks == InvalidBlockNumber) && scan->active)
	{
		node_call_replace(scan->call, NULL);
		scan->call->function(scan->call);
	}
	if (unlikely(!scan->active))
		return original(node);
	do
	{
		directed_scan_enter(&scan->directed);
		slot = original(node);
		directed_scan_leave(&scan->directed);
	} while (unlikely(TupIsNull(slot)) && next_stretch(scan));
	return slot;
}

static void
forget_chunks(CooperativeScan *scan)
{
	if (scan->had != NULL)
		pfree(scan->had);
	scan->had = NULL;
}

/*
 * At the first tuple of an execution, the scan's descriptor being there: whether the node reads
 * chunks from here on.
 */
bool
cooperative_scan_begin(CooperativeScan *scan, NodeCall *call, Registration *registration, const PlanState *gather)
{
	const SeqScanState *node = (const SeqScanState *) call->node;
	HeapScanDesc heap = (HeapScanDesc) node->ss.ss_currentScanDesc;
	MemoryContext before;

	if ((node->ss.ps.state->es_top_eflags & FLAG_MAY_COOPERATE) == 0 || heap->rs_inited || !is_large(heap->rs_nblocks))
		return false;
	before = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	cooperation_init(&scan->cooperation, node->ss.ss_currentRelation, heap->rs_nblocks);
	if (rests(scan, heap->rs_base.rs_parallel))
		scan->active = false;
	else if (heap->rs_base.rs_parallel != NULL)
		scan->active = cooperation_begin_parallel(&scan->cooperation, heap->rs_base.rs_parallel,
												  (ParallelScanName) {parallel_plan_memory(gather), node->ss.ps.plan->plan_node_id});
	else
	{
		scan->had = palloc0((scan->cooperation.chunks + 63) / 64 * sizeof(uint64));
		scan->active = cooperation_begin(&scan->cooperation, scan->had);
	}
	if (scan->active)
	{
		scan->call = call;
		scan->registration = registration;
		scan->begin = scan->end = scan->next = scan->ahead = scan->counted = 0;
		scan->window = FIRST_WINDOW;
		scan->asked = InvalidBlockNumber;
		directed_scan_begin(&scan->directed, heap);
		chunk_read_begin(&scan->reader, node->ss.ss_currentRelation, MAIN_FORKNUM);
		registration->kind = SCAN_COOPERATIVE;
		call->scan = scan;
		node_call_replace(call, next_tuple);
	}
	else if (scan->cooperation.refused)
	{
		count(COUNT_REFUSED, 1);
		refusal_tell(RelationGetRelid(node->ss.ss_currentRelation), "cooperation", scan->cooperation.limit);
	}
	if (!scan->active)
		forget_chunks(scan);
	MemoryContextSwitchTo(before);
	return scan->active;
}

/* Before another execution of the node, whose scan has been begun anew. */
void
cooperative_scan_restart(CooperativeScan *scan)
{
	if (scan->active)
		directed_scan_end(&scan->directed);
	cooperative_scan_end(scan);
}

/* When the scan has gone, or after an error. Twice does no harm. */
void
cooperative_scan_end(CooperativeScan *scan)
{
	if (last_scan == scan)
		last_scan = NULL;
	if (!scan->active)
		return;
	scan->active = false;
	cooperation_end(&scan->cooperation);
	chunk_read_end(&scan->reader);
	forget_chunks(scan);
}

/*
 * The part of version.h that is no inline function: the stand-in for a relation, the scan under a
 * plan node, and how the heap goes through the blocks of a bitmap.
 */
#include "pg_pagecast.h"

#include "access/parallel.h"
#include "access/tableam.h"
#include "executor/execParallel.h"
#include "postmaster/bgworker.h"
#include "storage/smgr.h"
#include "tcop/tcopprot.h"

/*
 * Makes `stand_in` what a scan's rs_rd may point to between two calls of the access method: it
 * leads to `routine`, and it has what the executor reads of it when it prefetches (PrefetchBuffer:
 * storage, persistence) or labels a tuple (the oid). All else stays 0. `form` is memory of the
 * caller's, because the relation cache may replace its own under a running scan.
 */
void
stand_in_for(RelationData *stand_in, FormData_pg_class *form, Relation relation, const TableAmRoutine *routine)
{
	memset(stand_in, 0, sizeof(*stand_in));
	memset(form, 0, sizeof(*form));
	form->relpersistence = relation->rd_rel->relpersistence;
	form->relkind = relation->rd_rel->relkind;
	stand_in->rd_rel = form;
	stand_in->rd_id = relation->rd_id;
	stand_in->rd_backend = relation->rd_backend;
	stand_in->rd_tableam = routine;
#if PG_VERSION_NUM < 160000
	stand_in->rd_node = relation->rd_node;
#else
	stand_in->rd_locator = relation->rd_locator;
#endif
}

/* Before the memory of a stand-in goes: storage that prefetching has opened may point to it. */
void
stand_in_release(RelationData *stand_in)
{
	if (stand_in->rd_smgr == NULL)
		return;
#if PG_VERSION_NUM < 170000
	smgrclearowner(&stand_in->rd_smgr, stand_in->rd_smgr);
#else
	smgrunpin(stand_in->rd_smgr);
#endif
	stand_in->rd_smgr = NULL;
}

/*
 * The table scan of a bitmap scan that has not begun. 17 and 18 make it only after the bitmap,
 * unless there is one: then they take ours. 17 always asks for tuples: scans without any were found
 * to count dead ones, and minor releases have stopped making them. 18 gives it its blocks later,
 * and looks at a rescan whether it has any.
 */
TableScanDesc
bitmap_scan_descriptor(BitmapHeapScanState *node)
{
#if PG_VERSION_NUM >= 170000
	if (node->ss.ss_currentScanDesc == NULL)
	{
		/* Where the node itself would have it. */
		MemoryContext before = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);

#if PG_VERSION_NUM >= 180000
		node->ss.ss_currentScanDesc = table_beginscan_bm(node->ss.ss_currentRelation, node->ss.ps.state->es_snapshot,
														 0, NULL);
		memset(&node->ss.ss_currentScanDesc->st.rs_tbmiterator, 0, sizeof(TBMIterator));
#else
		node->ss.ss_currentScanDesc = table_beginscan_bm(node->ss.ss_currentRelation, node->ss.ps.state->es_snapshot,
														 0, NULL, true);
#endif
		MemoryContextSwitchTo(before);
	}
#endif
	return node->ss.ss_currentScanDesc;
}

BufferTag
tag_of_block(const RelFileLocator *locator, ForkNumber fork, BlockNumber block)
{
	BufferTag	tag;

#if PG_VERSION_NUM < 160000
	INIT_BUFFERTAG(tag, *locator, fork, block);
#else
	InitBufferTag(&tag, locator, fork, block);
#endif
	return tag;
}

/* The number of the buffer that holds the block, or -1. Nobody keeps it there. */
int
buffer_of_tag(BufferTag *tag)
{
	uint32		hash = BufTableHashCode(tag);
	LWLock	   *lock = BufMappingPartitionLock(hash);
	int			buffer;

	LWLockAcquire(lock, LW_SHARED);
	buffer = BufTableLookup(tag, hash);
	LWLockRelease(lock);
	return buffer;
}

void
block_prefetch_begin(BlockPrefetch *prefetch, Relation relation, ForkNumber fork)
{
	prefetch->relation = relation;
	prefetch->fork = fork;
	prefetch->file = -1;
	prefetch->segment = InvalidBlockNumber;
}

#if PG_VERSION_NUM < 170000
/* Opens the file of a segment. A file that is not there is not read ahead: whoever reads it says
 * so. */
static bool
open_segment(BlockPrefetch *prefetch, BlockNumber segment)
{
	char	   *first;
	char	   *path;

	if (prefetch->segment == segment)
		return prefetch->file >= 0;
	block_prefetch_end(prefetch);
	first = relpathbackend(relation_locator(prefetch->relation), prefetch->relation->rd_backend, prefetch->fork);
	path = segment == 0 ? first : psprintf("%s.%u", first, segment);
	prefetch->file = PathNameOpenFile(path, O_RDONLY | PG_BINARY);
	prefetch->segment = segment;
	if (path != first)
		pfree(path);
	pfree(first);
	return prefetch->file >= 0;
}
#endif

/* The blocks are there. */
void
block_prefetch(BlockPrefetch *prefetch, BlockNumber first, BlockNumber count)
{
#if PG_VERSION_NUM >= 170000
	if ((io_direct_flags & IO_DIRECT_DATA) == 0)
		smgrprefetch(RelationGetSmgr(prefetch->relation), prefetch->fork, first, count);
#else
	while (count > 0)
	{
		BlockNumber place = first % RELSEG_SIZE;
		BlockNumber here = Min(count, RELSEG_SIZE - place);

		if (open_segment(prefetch, first / RELSEG_SIZE))
			FilePrefetch(prefetch->file, (off_t) place * BLCKSZ, here * BLCKSZ, WAIT_EVENT_DATA_FILE_PREFETCH);
		first += here;
		count -= here;
	}
#endif
}

/* Also after an error. Twice does no harm. */
void
block_prefetch_end(BlockPrefetch *prefetch)
{
	if (prefetch->file >= 0)
		FileClose(prefetch->file);
	prefetch->file = -1;
	prefetch->segment = InvalidBlockNumber;
}

/* Whether a cooperative scan has all blocks of this execution to hand out. */
bool
parallel_scan_is_taken(ParallelTableScanDesc parallel)
{
	return pg_atomic_read_u64(&((ParallelBlockTableScanDesc) parallel)->phs_nallocated) >= ALL_HANDED_OUT;
}

/* Takes all blocks, unless stock has handed out some. */
bool
parallel_scan_take(ParallelTableScanDesc parallel)
{
	uint64		nothing = 0;

	return pg_atomic_compare_exchange_u64(&((ParallelBlockTableScanDesc) parallel)->phs_nallocated, &nothing, ALL_HANDED_OUT);
}

/* In a worker, or below the leader's Gather. DSM_HANDLE_INVALID where the server had none to give:
 * then there are no workers. */
dsm_handle
parallel_plan_memory(const PlanState *gather)
{
	const ParallelExecutorInfo *plan = NULL;

	if (IsParallelWorker())
		return DatumGetUInt32(MyBgworkerEntry->bgw_main_arg);
	if (gather != NULL)
		plan = IsA(gather, GatherState) ? ((const GatherState *) gather)->pei : ((const GatherMergeState *) gather)->pei;
	return plan != NULL && plan->pcxt->seg != NULL ? dsm_segment_handle(plan->pcxt->seg) : DSM_HANDLE_INVALID;
}

#if PG_VERSION_NUM >= 170000
static BlockNumber
next_directed_block(ReadStream *stream, void *directed_scan, void *unused)
{
	DirectedScan *directed = directed_scan;

	/* As stock's does with the first block: a scan without a block is not asked for its page. */
	directed->scan->rs_inited = true;
	return directed->next < directed->end ? directed->next++ : InvalidBlockNumber;
}

/* A stream has the strategy with which it begins. */
static void
begin_stream(DirectedScan *directed)
{
	HeapScanDesc scan = directed->scan;
	MemoryContext before = MemoryContextSwitchTo(GetMemoryChunkContext(scan));

	if (scan->rs_read_stream != NULL)
		read_stream_end(scan->rs_read_stream);
	scan->rs_read_stream = read_stream_begin_relation(READ_STREAM_SEQUENTIAL, scan->rs_strategy, scan->rs_base.rs_rd,
													  MAIN_FORKNUM, next_directed_block, directed, 0);
	MemoryContextSwitchTo(before);
}
#endif

/*
 * Pages that are read with a strategy get a usage count of 1 at most, however many scans read them.
 * So the clock's hand, which others move, takes them before pages that are used again and again;
 * and of a chunk that leaves, those stay that others use. Of the strategy's ring nothing is wanted:
 * it has room for as many buffers as are read with it, so it takes none back.
 */
static void
renew_strategy(HeapScanDesc scan, BlockNumber blocks)
{
	/* Where the server puts its own. */
	MemoryContext before = MemoryContextSwitchTo(GetMemoryChunkContext(scan));

	if (scan->rs_strategy != NULL)
		FreeAccessStrategy(scan->rs_strategy);
#if PG_VERSION_NUM < 160000
	scan->rs_strategy = GetAccessStrategy(BAS_BULKREAD);
#else
	scan->rs_strategy = GetAccessStrategyWithSize(BAS_BULKREAD, blocks * (BLCKSZ / 1024));
#endif
	MemoryContextSwitchTo(before);
}

/* Takes over a scan that has not begun. It has no block to read yet. */
void
directed_scan_begin(DirectedScan *directed, HeapScanDesc scan)
{
	directed->scan = scan;
	directed->flags = scan->rs_base.rs_flags;
	scan->rs_base.rs_flags &= ~(SO_ALLOW_SYNC | SO_ALLOW_STRAT);
	directed->strategy = scan->rs_strategy;
	scan->rs_strategy = NULL;
	scan->rs_numblocks = 0;
#if PG_VERSION_NUM < 170000
	directed->parallel = scan->rs_base.rs_parallel;
#else
	directed->next = directed->end = 0;
	directed->stock = scan->rs_read_stream;
	scan->rs_read_stream = NULL;
	begin_stream(directed);
#endif
}

/* Has it read these blocks next; before, it has come to the end of what it read. */
void
directed_scan_to(DirectedScan *directed, BlockNumber first, BlockNumber blocks)
{
#if PG_VERSION_NUM < 170000
	renew_strategy(directed->scan, blocks);
	heap_setscanlimits(&directed->scan->rs_base, first, blocks);
#else
	/* Before its strategy: what it has pinned is given back. */
	read_stream_reset(directed->scan->rs_read_stream);
	renew_strategy(directed->scan, blocks);
	directed->next = first;
	directed->end = first + blocks;
	begin_stream(directed);
#endif
}

/* Gives it back, as one that has not begun. */
void
directed_scan_end(DirectedScan *directed)
{
	/* A rescan has set it again for a parallel scan. */
	directed->scan->rs_base.rs_flags &= ~SO_ALLOW_SYNC;
	heap_setscanlimits(&directed->scan->rs_base, 0, InvalidBlockNumber);
	directed->scan->rs_base.rs_flags = directed->flags;
#if PG_VERSION_NUM >= 170000
	read_stream_end(directed->scan->rs_read_stream);
	directed->scan->rs_read_stream = directed->stock;
#endif
	if (directed->scan->rs_strategy != NULL)
		FreeAccessStrategy(directed->scan->rs_strategy);
	directed->scan->rs_strategy = directed->strategy;
}

/* Lists the blocks of a bitmap in their order. One that workers share lies in their common memory
 * and has iterators of its own, of which it can give one more. */
#if PG_VERSION_NUM >= 180000
void
list_bitmap(BitmapHeapScanState *node, void (*add_block) (void *list, BlockNumber block), void *list)
{
	dsa_area   *dsa = node->ss.ps.state->es_query_dsa;
	dsa_pointer state = node->pstate ? tbm_prepare_shared_iterate(node->tbm) : InvalidDsaPointer;
	TBMIterator iterator = tbm_begin_iterate(node->tbm, dsa, state);
	TBMIterateResult page;

	while (tbm_iterate(&iterator, &page))
		add_block(list, page.blockno);
	tbm_end_iterate(&iterator);
	if (DsaPointerIsValid(state))
		tbm_free_shared_area(dsa, state);
}
#else
static void
list_shared(BitmapHeapScanState *node, void (*add_block) (void *list, BlockNumber block), void *list)
{
	dsa_area   *dsa = node->ss.ps.state->es_query_dsa;
	dsa_pointer state = tbm_prepare_shared_iterate(node->tbm);
	TBMSharedIterator *iterator = tbm_attach_shared_iterate(dsa, state);
	TBMIterateResult *page;

	while ((page = tbm_shared_iterate(iterator)) != NULL)
		add_block(list, page->blockno);
	tbm_end_shared_iterate(iterator);
	tbm_free_shared_area(dsa, state);
}

void
list_bitmap(BitmapHeapScanState *node, void (*add_block) (void *list, BlockNumber block), void *list)
{
	TBMIterator *iterator;
	TBMIterateResult *page;

	if (node->pstate)
	{
		list_shared(node, add_block, list);
		return;
	}
	iterator = tbm_begin_iterate(node->tbm);
	while ((page = tbm_iterate(iterator)) != NULL)
		add_block(list, page->blockno);
	tbm_end_iterate(iterator);
}
#endif

/*
 * How the heap goes through a bitmap. Up to 17 it is told each block, and reads it then. In 18 it
 * takes the blocks from the bitmap by itself when the last one has no more rows. It reads them
 * ahead in a stream, and passes over those without rows.
 *
 * So in 18 what is found and read on the way to a block are blocks further ahead. They are all the
 * scan's, and the sums are right. Whether the block itself came from disk is not known there.
 */
#if PG_VERSION_NUM >= 180000
static bool
scan_bitmap_next_tuple(TableScanDesc scan, TupleTableSlot *slot, bool *recheck, uint64 *lossy_pages, uint64 *exact_pages)
{
	ObservedBitmap *observed = bitmap_enter(scan);
	HeapScanDesc at = (HeapScanDesc) scan;
	bool		goes_on = at->rs_cindex >= at->rs_ntuples;
	bool		watched = goes_on && bitmap_goes_on(observed);
	uint64		began = watched ? block_begins() : 0;
	int64		found = pgBufferUsage.shared_blks_hit,
				read = pgBufferUsage.shared_blks_read;
	bool		has_tuple = GetHeapamTableAmRoutine()->scan_bitmap_next_tuple(scan, slot, recheck, lossy_pages, exact_pages);

	if (watched)
	{
		read = pgBufferUsage.shared_blks_read - read;
		block_ends(began, read);
		bitmap_count(observed, pgBufferUsage.shared_blks_hit - found, read);
		if (!has_tuple)
			bitmap_end(observed);
		else if (bitmap_comes_to(observed, at->rs_cblock))
			bitmap_has_read(observed, at->rs_cblock, at->rs_cbuf, false);
	}
	if (goes_on)
		bitmap_leave_or_rest(scan, observed, watched);
	else
		bitmap_leave(scan, observed);
	return has_tuple;
}

void
bitmap_routine_init(TableAmRoutine *routine)
{
	routine->scan_bitmap_next_tuple = scan_bitmap_next_tuple;
}
#else
static bool
scan_bitmap_next_block(TableScanDesc scan, TBMIterateResult *page)
{
	ObservedBitmap *observed = bitmap_enter(scan);
	bool		watched = bitmap_goes_on(observed) && bitmap_comes_to(observed, page->blockno);
	uint64		began = watched ? block_begins() : 0;
	int64		read = pgBufferUsage.shared_blks_read;
	bool		has_tuples = GetHeapamTableAmRoutine()->scan_bitmap_next_block(scan, page);

	if (watched)
	{
		Buffer		buffer = ((HeapScanDesc) scan)->rs_cbuf;
		/* A block past the end, or one of which no tuple is needed, was not read; the buffer is
		 * then that of another. */
		bool		is_block = BufferIsValid(buffer) && BufferGetBlockNumber(buffer) == page->blockno;

		read = pgBufferUsage.shared_blks_read - read;
		block_ends(began, read);
		bitmap_count(observed, is_block && read == 0, read);
		bitmap_has_read(observed, page->blockno, is_block ? buffer : InvalidBuffer, read > 0);
	}
	bitmap_leave_or_rest(scan, observed, watched);
	return has_tuples;
}

static bool
scan_bitmap_next_tuple(TableScanDesc scan, TBMIterateResult *page, TupleTableSlot *slot)
{
	ObservedBitmap *observed = bitmap_enter(scan);
	bool		has_tuple = GetHeapamTableAmRoutine()->scan_bitmap_next_tuple(scan, page, slot);

	bitmap_leave(scan, observed);
	return has_tuple;
}

void
bitmap_routine_init(TableAmRoutine *routine)
{
	routine->scan_bitmap_next_block = scan_bitmap_next_block;
	routine->scan_bitmap_next_tuple = scan_bitmap_next_tuple;
}
#endif

/* As IndexNext() and IndexOnlyNext() do. 18 counts searches by node. */
IndexScanDesc
begin_index_scan(PlanState *node, Relation table, Relation index, int key_count, int order_count)
{
#if PG_VERSION_NUM >= 180000
	IndexScanInstrumentation *counts = IsA(node, IndexScanState) ? &((IndexScanState *) node)->iss_Instrument :
		&((IndexOnlyScanState *) node)->ioss_Instrument;

	return index_beginscan(table, index, node->state->es_snapshot, counts, key_count, order_count);
#else
	return index_beginscan(table, index, node->state->es_snapshot, key_count, order_count);
#endif
}

/* What EXPLAIN does without a hook; 15 does not offer it as a function. */
void
plain_explain_one_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *query_string,
						ParamListInfo params, QueryEnvironment *environment)
{
#if PG_VERSION_NUM >= 170000
	standard_ExplainOneQuery(query, cursor_options, into, es, query_string, params, environment);
#else
	BufferUsage used = pgBufferUsage;
	BufferUsage planning = {0};
	instr_time	start,
				duration;
	PlannedStmt *plan;

	INSTR_TIME_SET_CURRENT(start);
	plan = pg_plan_query(query, query_string, cursor_options, params);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	BufferUsageAccumDiff(&planning, &pgBufferUsage, &used);
	ExplainOnePlan(plan, into, es, query_string, params, environment, &duration, es->buffers ? &planning : NULL);
#endif
}

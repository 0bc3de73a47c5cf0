/*
 * What differs between the versions of PostgreSQL. Every #if on a version is here or in version.c,
 * and so is every use of a field or function that is not meant for extensions, with the reason and
 * a check at build time.
 *
 * Built and run on 15 to 18. The sources of 15, 17 and 18 were read; Debian has none of 16. On
 * another version nothing builds.
 */
#ifndef PAGECAST_VERSION_H
#define PAGECAST_VERSION_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "pg_pagecast is made for PostgreSQL 15 to 18"
#endif

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "commands/explain.h"
#include "executor/executor.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "nodes/execnodes.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/dsm.h"
#include "storage/fd.h"
#if PG_VERSION_NUM >= 170000
#include "storage/read_stream.h"
#endif
#include "utils/rel.h"

#if PG_VERSION_NUM < 160000
typedef RelFileNode RelFileLocator;
#define RelFileLocatorEquals RelFileNodeEquals
#endif

/*
 * BufferDesc.state, BufferDesc.tag (storage/buf_internals.h, which the server's own contrib modules
 * use for the same): the usage count is what the clock goes by. Only changed by compare-exchange,
 * as the header allows without the buffer's lock.
 */
StaticAssertDecl(BUF_USAGECOUNT_MASK == 0x003C0000U && BM_MAX_USAGE_COUNT == 5, "usage count of another shape");
StaticAssertDecl(BUF_REFCOUNT_MASK == (1U << 18) - 1, "pin count of another shape");
StaticAssertDecl(sizeof(((BufferDesc *) 0)->state) == 4, "buffer state of another size");

/*
 * have_free_buffer(), StrategyFreeBuffer(): the mode freelist. Up to 18; the list is gone after
 * that. That a listed buffer is looked at again before it is taken was read in StrategyGetBuffer()
 * of 15, 17 and 18.
 */
StaticAssertDecl(FREENEXT_NOT_IN_LIST == -2, "freelist of another kind");

/*
 * BufTableHashCode(), BufTableLookup(), BufMappingPartitionLock(): which buffer holds a block,
 * found without reading it, as PrefetchBuffer() finds it.
 */
extern BufferTag tag_of_block(const RelFileLocator *locator, ForkNumber fork, BlockNumber block);
extern int	buffer_of_tag(BufferTag *tag);

#if PG_VERSION_NUM < 160000
#define buffer_tags_equal(a, b) BUFFERTAGS_EQUAL(*(a), *(b))
#else
#define buffer_tags_equal(a, b) BufferTagsEqual(a, b)
#endif

/*
 * TableScanDescData.rs_rd: where the table's access method is looked up at each call. An observed
 * scan has a stand-in there. HeapScanDescData.rs_cbuf: the buffer that a scan has just read, so
 * that it can be told from a buffer that others use.
 */
StaticAssertDecl(sizeof(((TableScanDesc) 0)->rs_rd) == sizeof(Relation), "a scan without its relation");
StaticAssertDecl(sizeof(((HeapScanDesc) 0)->rs_cbuf) == sizeof(Buffer), "a scan without its buffer");

/*
 * IndexFetchTableData.rel: as rs_rd, for the tables of index scans. IndexFetchHeapData.xs_cbuf as
 * rs_cbuf. HeapScanDescData.rs_inited, .rs_cblock: where a sequential or bitmap scan is.
 */
StaticAssertDecl(sizeof(((IndexFetchTableData *) 0)->rel) == sizeof(Relation), "an index scan without its relation");
StaticAssertDecl(sizeof(((IndexFetchHeapData *) 0)->xs_cbuf) == sizeof(Buffer), "an index scan without its buffer");
StaticAssertDecl(sizeof(((HeapScanDesc) 0)->rs_cblock) == sizeof(BlockNumber), "a scan without its block");

/* BitmapHeapScanState.tbm and .pstate: the bitmap once it is built, and the state that parallel
 * workers share. */
StaticAssertDecl(sizeof(((BitmapHeapScanState *) 0)->tbm) == sizeof(TIDBitmap *), "a scan without its bitmap");

/*
 * HeapScanDescData.rs_cindex, .rs_ntuples: of the rows that a bitmap scan has found on its block,
 * the next, and how many there are. 18 goes on to the next block where there is none. TBMIterator
 * in TableScanDescData.st: the blocks that it goes through.
 */
#if PG_VERSION_NUM >= 180000
StaticAssertDecl(sizeof(((HeapScanDesc) 0)->rs_cindex) == 4 && sizeof(((HeapScanDesc) 0)->rs_ntuples) == 4, "a block without its rows");
StaticAssertDecl(sizeof(((TableScanDesc) 0)->st.rs_tbmiterator) == sizeof(TBMIterator), "a bitmap scan without its blocks");
#endif

/* A query is run to its end, or for some rows. 18 no longer asks whether it is run only once. */
#if PG_VERSION_NUM >= 180000
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_ARGUMENTS query, direction, count
#else
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once
#define RUN_ARGUMENTS query, direction, count, execute_once
#endif

/*
 * RelationData.pgstat_info: how many entries an index has given to this process, and to how many
 * scans, as the server counts them for its statistics. NULL where it does not. The counts stay
 * where they are while a query runs: they are given up between two statements.
 */
typedef PgStat_TableStatus IndexCounts;

static inline int64
index_scans(const IndexCounts *index)
{
#if PG_VERSION_NUM < 160000
	return index->t_counts.t_numscans;
#else
	return index->counts.numscans;
#endif
}

static inline int64
index_entries(const IndexCounts *index)
{
#if PG_VERSION_NUM < 160000
	return index->t_counts.t_tuples_returned;
#else
	return index->counts.tuples_returned;
#endif
}

/* The same of a table: blocks that this process has asked for, and those of them that it found in
 * the pool. */
static inline int64
table_fetched(const PgStat_TableStatus *table)
{
#if PG_VERSION_NUM < 160000
	return table->t_counts.t_blocks_fetched;
#else
	return table->counts.blocks_fetched;
#endif
}

static inline int64
table_found(const PgStat_TableStatus *table)
{
#if PG_VERSION_NUM < 160000
	return table->t_counts.t_blocks_hit;
#else
	return table->counts.blocks_hit;
#endif
}

static inline RelFileLocator
relation_locator(Relation relation)
{
#if PG_VERSION_NUM < 160000
	return relation->rd_node;
#else
	return relation->rd_locator;
#endif
}

static inline RelFileLocator
tag_locator(const BufferTag *tag)
{
#if PG_VERSION_NUM < 160000
	return tag->rnode;
#else
	return BufTagGetRelFileLocator(tag);
#endif
}

static inline ForkNumber
tag_fork(const BufferTag *tag)
{
#if PG_VERSION_NUM < 160000
	return tag->forkNum;
#else
	return BufTagGetForkNum(tag);
#endif
}

static inline Oid
locator_space(const RelFileLocator *locator)
{
#if PG_VERSION_NUM < 160000
	return locator->spcNode;
#else
	return locator->spcOid;
#endif
}

static inline Oid
locator_database(const RelFileLocator *locator)
{
#if PG_VERSION_NUM < 160000
	return locator->dbNode;
#else
	return locator->dbOid;
#endif
}

static inline Oid
locator_number(const RelFileLocator *locator)
{
#if PG_VERSION_NUM < 160000
	return locator->relNode;
#else
	return locator->relNumber;
#endif
}

extern void stand_in_for(RelationData *stand_in, FormData_pg_class *form, Relation relation,
						 const struct TableAmRoutine *routine);
extern void stand_in_release(RelationData *stand_in);
extern TableScanDesc bitmap_scan_descriptor(BitmapHeapScanState *node);
extern void list_bitmap(BitmapHeapScanState *node, void (*add_block) (void *list, BlockNumber block), void *list);
extern void bitmap_routine_init(struct TableAmRoutine *routine);
extern IndexScanDesc begin_index_scan(PlanState *node, Relation table, Relation index, int key_count, int order_count);

/*
 * Asks the kernel for blocks of a relation, many with one request. 17 has a function for that; 15
 * asks block by block, and there the file is opened once more.
 */
typedef struct BlockPrefetch
{
	Relation	relation;
	ForkNumber	fork;
	File		file;			/* before 17: of `segment`; -1: none is open */
	BlockNumber segment;
} BlockPrefetch;

extern void block_prefetch_begin(BlockPrefetch *prefetch, Relation relation, ForkNumber fork);
extern void block_prefetch(BlockPrefetch *prefetch, BlockNumber first, BlockNumber count);
extern void block_prefetch_end(BlockPrefetch *prefetch);

/*
 * ParallelBlockTableScanDescData.phs_nallocated: how many blocks of a parallel scan have been
 * handed out. A cooperative scan takes them all at once: it makes 0 of it ALL_HANDED_OUT, and
 * nothing else of ours is kept there.
 *
 * What the server does with it, by the sources of 15 and 18 and the machine code of 16 and 17:
 * table_block_parallelscan_nextpage() alone reads it. It adds what it takes, MOST_TAKEN blocks at
 * most, and takes what it finds there at or above phs_nblocks for the end of the table. So a
 * process that reads as stock does finds no block, as where the others have been faster. 2^49 calls
 * of it leave the number above any table's end. table_block_parallelscan_reinitialize() sets it to
 * 0 before another execution.
 */
#define ALL_HANDED_OUT (UINT64CONST(1) << 63)
#define MOST_TAKEN UINT64CONST(8192)
StaticAssertDecl(sizeof(((ParallelBlockTableScanDesc) 0)->phs_nallocated.value) == 8, "a parallel scan with another count of blocks");
StaticAssertDecl(sizeof(((ParallelBlockTableScanDesc) 0)->phs_nblocks) == 4 && MaxBlockNumber < ALL_HANDED_OUT, "a table that may be larger");
StaticAssertDecl(ALL_HANDED_OUT + (MOST_TAKEN << 49) > ALL_HANDED_OUT, "a count that may begin anew");

/*
 * EState.es_top_eflags: goes from the leader of a parallel plan to its workers. The server reads it
 * by masks of its flags, the lowest seven bits. FLAG_MAY_COOPERATE is ours, and far above them.
 */
#define FLAG_MAY_COOPERATE 0x40000000
StaticAssertDecl(EXEC_FLAG_WITH_NO_DATA <= 0x0040, "flags of the executor that are not known");

extern bool parallel_scan_is_taken(ParallelTableScanDesc parallel);
extern bool parallel_scan_take(ParallelTableScanDesc parallel);

/* GatherState.pei, ParallelContext.seg, BackgroundWorker.bgw_main_arg: the shared memory of the
 * processes of a parallel plan, by the name that workers attach to it by. */
extern dsm_handle parallel_plan_memory(const PlanState *gather);

/*
 * A sequential scan under its plan node that reads stretches of blocks one after the other, each as
 * told, and ends after each. HeapScanDescData.rs_numblocks tells the node's rescan: it is
 * InvalidBlockNumber then, and never while a stretch is read. HeapScanDescData.rs_nblocks: the
 * blocks of the table when the scan began. Others: .rs_inited, .rs_strategy, .rs_base.rs_flags.
 *
 * Before 17 a scan with .rs_base.rs_parallel asks there for blocks, so it has none while it reads.
 * From 17 on the blocks come from a .rs_read_stream of ours, which asks us.
 */
typedef struct DirectedScan
{
	HeapScanDesc scan;
	uint32		flags;			/* as stock has set them */
	BufferAccessStrategy strategy;	/* that its own stream has, too */
#if PG_VERSION_NUM < 170000
	ParallelTableScanDesc parallel;
#else
	ReadStream *stock;			/* in whose place ours is */
	BlockNumber next,
				end;
#endif
} DirectedScan;

extern void directed_scan_begin(DirectedScan *directed, HeapScanDesc scan);
extern void directed_scan_to(DirectedScan *directed, BlockNumber first, BlockNumber blocks);
extern void directed_scan_end(DirectedScan *directed);

/* Around each call of the plan node. */
static inline void
directed_scan_enter(DirectedScan *directed)
{
#if PG_VERSION_NUM < 170000
	directed->scan->rs_base.rs_parallel = NULL;
#endif
}

static inline void
directed_scan_leave(DirectedScan *directed)
{
#if PG_VERSION_NUM < 170000
	directed->scan->rs_base.rs_parallel = directed->parallel;
#endif
}

extern void plain_explain_one_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es,
									const char *query_string, ParamListInfo params, QueryEnvironment *environment);

#endif							/* PAGECAST_VERSION_H */

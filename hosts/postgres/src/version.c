/*
 * The part of version.h that is no inline function: the stand-in for a relation, and the scan under
 * a plan node.
 */
#include "pg_pagecast.h"

#include "access/tableam.h"
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
 * The table scan of a bitmap scan that has not begun. 17 makes it only after the bitmap, unless
 * there is one: then it takes ours. It always asks for tuples: scans without any were found to
 * count dead ones, and minor releases have stopped making them.
 */
TableScanDesc
bitmap_scan_descriptor(BitmapHeapScanState *node)
{
#if PG_VERSION_NUM >= 170000
	if (node->ss.ss_currentScanDesc == NULL)
	{
		/* Where the node itself would have it. */
		MemoryContext before = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);

		node->ss.ss_currentScanDesc = table_beginscan_bm(node->ss.ss_currentRelation, node->ss.ps.state->es_snapshot,
														  0, NULL, true);
		MemoryContextSwitchTo(before);
	}
#endif
	return node->ss.ss_currentScanDesc;
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

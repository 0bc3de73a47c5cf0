/*
 * Where plans start: each scan of the plan that can be told of gets its observer. And where they
 * run and end, for those that a timer observes.
 */
#include "pg_pagecast.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

static ExecutorStart_hook_type next_executor_start = NULL;
static ExecutorRun_hook_type next_executor_run = NULL;
static ExecutorEnd_hook_type next_executor_end = NULL;

/* Whether the planner expects a node to read so many blocks, by the least that this can cost. */
bool
reads_blocks(const Plan *plan, uint32 blocks)
{
	return plan->total_cost >= blocks * seq_page_cost;
}

/* `gather` is that under which a parallel plan's processes run the node. */
static bool
observe(PlanState *node, void *gather)
{
	/* A subplan is come to once for each expression that refers to it. */
	if (node == NULL || node_is_observed(node))
		return false;
	if (IsA(node, BitmapHeapScanState))
		observe_bitmap_scan((BitmapHeapScanState *) node);
	else if (IsA(node, SeqScanState))
		observe_sequential_scan((SeqScanState *) node, gather);
	else if (IsA(node, IndexScanState) || IsA(node, IndexOnlyScanState))
		observe_index_scan((ScanState *) node);
	return planstate_tree_walker(node, observe, IsA(node, GatherState) || IsA(node, GatherMergeState) ? node : gather);
}

static void
executor_start(QueryDesc *query, int flags)
{
	if (next_executor_start)
		next_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	if (!pagecast_loaded() || (flags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
		return;
	cooperation_query_starts(query);
	if (pagecast_enabled)
	{
		uint64		before = nodes_observed_here();

		observe(query->planstate, NULL);
		if (nodes_observed_here() != before)
			explain_query_starts(query->estate);
	}
}

static void
executor_run(RUN_PARAMETERS)
{
	bool		ran = sampling_run(query->estate);

	cooperative_scan_permit(query);
	if (next_executor_run)
		next_executor_run(RUN_ARGUMENTS);
	else
		standard_ExecutorRun(RUN_ARGUMENTS);
	sampling_rest(ran);
}

static void
executor_end(QueryDesc *query)
{
	sampling_end(query->estate);
	if (next_executor_end)
		next_executor_end(query);
	else
		standard_ExecutorEnd(query);
}

void
executor_install_hooks(void)
{
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	next_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	next_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
}

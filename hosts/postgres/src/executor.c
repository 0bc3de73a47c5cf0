/*
 * Where plans start: each scan of the plan that can be told of gets its observer. And where they
 * run and end, for those that a timer observes.
 */
#include "recurring.h"
#include "sampling.h"

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

/* Where a node stands in its plan. */
typedef struct Place
{
	const PlanState *parent;
	const PlanState *gather;	/* under which a parallel plan's processes run the node */
	bool		feeds_lookups;	/* each row of the parent has rows of a large table looked up */
} Place;

/* Whether a node below looks up rows of a large table by an index. */
static bool
looks_up(PlanState *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, IndexScanState) || IsA(node, IndexOnlyScanState) || IsA(node, BitmapHeapScanState))
		return is_large_table(((ScanState *) node)->ss_currentRelation->rd_rel->relpages);
	return planstate_tree_walker(node, looks_up, unused);
}

/* Whether a subquery is run for each row of the node and looks up rows. */
static bool
has_lookups(const PlanState *node)
{
	ListCell   *cell;

	foreach(cell, node->subPlan)
	{
		const SubPlanState *subquery = lfirst_node(SubPlanState, cell);

		if (!subquery->subplan->useHashTable && looks_up(subquery->planstate, NULL))
			return true;
	}
	return false;
}

/* Whether the rows of a node's inputs come out of it, if they do, in the order in which they went
 * in. */
static bool
keeps_order(const PlanState *node)
{
	return !(IsA(node, SortState) || IsA(node, IncrementalSortState) || IsA(node, HashState) || IsA(node, AggState) ||
			 IsA(node, SetOpState) || IsA(node, GatherState) || IsA(node, GatherMergeState));
}

/*
 * Whether each row of the node has rows of a large table looked up, by it or by those above it. A
 * scan in the order of blocks then does well: where two tables lie in about the same order, as
 * orders and their lines by date, what one row has had read the next one finds.
 */
static bool
feeds_lookups(const PlanState *node, const Place *place)
{
	const PlanState *parent = place->parent;

	if (has_lookups(node))
		return true;
	if (parent == NULL)
		return false;
	if (node != outerPlanState(parent))
		return place->feeds_lookups && (IsA(parent, AppendState) || IsA(parent, SubqueryScanState));
	return (IsA(parent, NestLoopState) && looks_up(innerPlanState(parent), NULL)) || (place->feeds_lookups && keeps_order(parent));
}

static bool
observe(PlanState *node, void *parents_place)
{
	const Place *place = parents_place;
	Place		childrens = {.parent = node};

	/* A subplan is come to once for each expression that refers to it. */
	if (node == NULL || node_is_observed(node))
		return false;
	childrens.feeds_lookups = feeds_lookups(node, place);
	childrens.gather = IsA(node, GatherState) || IsA(node, GatherMergeState) ? node : place->gather;
	if (IsA(node, BitmapHeapScanState))
		observe_bitmap_scan((BitmapHeapScanState *) node);
	else if (IsA(node, SeqScanState))
		observe_sequential_scan((SeqScanState *) node, place->gather, childrens.feeds_lookups);
	else if (IsA(node, IndexScanState) || IsA(node, IndexOnlyScanState))
		observe_index_scan((ScanState *) node);
	return planstate_tree_walker(node, observe, &childrens);
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
		Place		root = {0};

		observe(query->planstate, &root);
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
	if (pagecast_loaded())
		recurring_query_ends();
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

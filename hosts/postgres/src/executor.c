/*
 * Where plans start: each scan of the plan that can be told of gets its observer.
 */
#include "pg_pagecast.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

static ExecutorStart_hook_type next_executor_start = NULL;

static bool
observe(PlanState *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, BitmapHeapScanState))
		observe_bitmap_scan((BitmapHeapScanState *) node);
	return planstate_tree_walker(node, observe, context);
}

static void
executor_start(QueryDesc *query, int flags)
{
	if (next_executor_start)
		next_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	if (pagecast_enabled && pagecast_loaded() && (flags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		observe(query->planstate, NULL);
}

void
executor_install_hooks(void)
{
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

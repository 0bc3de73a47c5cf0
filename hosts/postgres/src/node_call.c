/*
 * A call before a plan node's next tuple, in the place where a scan can begin to be observed: its descriptor is there, or is made as
 * the node would make it, and nothing has been read yet.
 *
 * PlanState.ExecProcNodeReal is replaced for one tuple only, so that all others cost nothing. May be armed again, also by a
 * signal handler: that stores pointers and nothing else, and between two tuples is where the scan finds it.
 */
#include "pg_pagecast.h"

#include "executor/executor.h"

/* Of all queries of this process that run or wait; seldom more than a few. */
static NodeCall *node_calls = NULL;

static TupleTableSlot *
before_tuple(PlanState *node)
{
	NodeCall   *call = node_calls;

	while (call->node != node)
		call = call->next;
	if (call->armed)
	{
		call->armed = false;
		if (node->ExecProcNodeReal == before_tuple)
			node->ExecProcNodeReal = call->original;
		if (node->ExecProcNode == before_tuple)
			node->ExecProcNode = call->original;
		call->function(call);
	}
	return call->original(node);
}

/* In a signal handler too. Where somebody else has put his function around ours, ours is still called. */
void
node_call_arm(NodeCall *call)
{
	PlanState  *node = call->node;

	call->armed = true;
	if (node->ExecProcNodeReal == call->original)
		node->ExecProcNodeReal = before_tuple;
	if (node->ExecProcNode == call->original)
		node->ExecProcNode = before_tuple;
}

/* `node` has not run yet. */
void
node_call_init(NodeCall *call, PlanState *node, void (*function) (NodeCall *))
{
	call->node = node;
	call->original = node->ExecProcNodeReal;
	call->function = function;
	call->next = node_calls;
	node_calls = call;
	node_call_arm(call);
}

/* Before the node's memory goes. Twice does no harm. */
void
node_call_remove(NodeCall *call)
{
	for (NodeCall **at = &node_calls; *at != NULL; at = &(*at)->next)
	{
		if (*at == call)
		{
			*at = call->next;
			return;
		}
	}
}

/*
 * A call before a plan node's next tuple, in the place where a scan can begin to be observed: its
 * descriptor is there, or is made as the node would make it, and nothing has been read yet.
 *
 * PlanState.ExecProcNodeReal is replaced for one tuple only, so that all others cost nothing,
 * unless somebody wants to be called for each. May be armed again, also by a signal handler: that
 * stores pointers and nothing else, and between two tuples is where the scan finds it.
 */
#include "pg_pagecast.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "utils/memutils.h"

/* Of all queries of this process that run or wait, by their nodes: a plan over partitions has
 * thousands. */
typedef struct CallOfNode
{
	PlanState  *node;
	NodeCall   *call;
	char		status;			/* the table's own */
} CallOfNode;

static inline uint32
hash_of_node(const PlanState *node)
{
	return murmurhash32((uint32) ((uintptr_t) node >> 3));
}

#define SH_PREFIX calls
#define SH_ELEMENT_TYPE CallOfNode
#define SH_KEY_TYPE PlanState *
#define SH_KEY node
#define SH_HASH_KEY(table, key) hash_of_node(key)
#define SH_EQUAL(table, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static calls_hash *node_calls = NULL;
static uint64 observed_here = 0;

/* How many nodes this process has observed so far. */
uint64
nodes_observed_here(void)
{
	return observed_here;
}

/* Whether a node of a running query is observed. */
bool
node_is_observed(PlanState *node)
{
	return node_calls != NULL && calls_lookup(node_calls, node) != NULL;
}

/* What is observed at a node. */
NodeCall *
node_call_of(PlanState *node)
{
	return calls_lookup(node_calls, node)->call;
}

static TupleTableSlot *
before_tuple(PlanState *node)
{
	NodeCall   *call = node_call_of(node);

	if (call->armed)
	{
		call->armed = false;
		node_call_replace(call, NULL);
		call->function(call);
	}
	return call->tuple ? call->tuple(node) : call->original(node);
}

static inline void
replace(ExecProcNodeMtd *place, const NodeCall *call, ExecProcNodeMtd by)
{
	if (*place == before_tuple || *place == call->tuple || *place == call->original)
		*place = by;
}

/* Has `tuple` called for each tuple of the node from now on, or if it is NULL what was there
 * before. Not where somebody else has put his function around ours: there it is called by ours. */
void
node_call_replace(NodeCall *call, ExecProcNodeMtd tuple)
{
	ExecProcNodeMtd by = tuple ? tuple : call->original;

	replace(&call->node->ExecProcNodeReal, call, by);
	replace(&call->node->ExecProcNode, call, by);
	call->tuple = tuple;
}

/* In a signal handler too. Where somebody else has put his function around ours, ours is still
 * called. */
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

/* `node` has not run yet, and is not observed: else the function in whose place ours is would be
 * ours. */
void
node_call_init(NodeCall *call, PlanState *node, void (*function) (NodeCall *))
{
	bool		found;

	call->node = node;
	call->original = node->ExecProcNodeReal;
	call->function = function;
	call->tuple = NULL;
	if (node_calls == NULL)
		node_calls = calls_create(TopMemoryContext, 64, NULL);
	calls_insert(node_calls, node, &found)->call = call;
	node_call_arm(call);
	observed_here++;
}

/* Before the node's memory goes. Twice does no harm. */
void
node_call_remove(NodeCall *call)
{
	CallOfNode *entry = calls_lookup(node_calls, call->node);

	if (entry != NULL && entry->call == call)
		calls_delete_item(node_calls, entry);
}

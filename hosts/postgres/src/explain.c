/*
 * A line under EXPLAIN ANALYZE that says how many of the query's scans were registered.
 *
 * Up to 17 a plan node's own lines cannot be added to (18 has a hook for it), so the line stands behind the whole plan, and only in the
 * text format: the others describe each query by one object that is closed by then. It belongs to the summary: who turns that off wants
 * output that does not change. Workers' and EXECUTE's scans are not in it.
 */
#include "pg_pagecast.h"

#include "commands/explain.h"

static ExplainOneQuery_hook_type next_explain = NULL;

static void
explain_one_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *query_string,
				  ParamListInfo params, QueryEnvironment *environment)
{
	uint64		before = scans_registered_here();
	uint64		registered;

	if (next_explain)
		next_explain(query, cursor_options, into, es, query_string, params, environment);
	else
		plain_explain_one_query(query, cursor_options, into, es, query_string, params, environment);
	registered = scans_registered_here() - before;
	if (es->analyze && es->summary && es->format == EXPLAIN_FORMAT_TEXT && registered > 0)
		ExplainPropertyUInteger("Scans registered by pg_pagecast", NULL, registered, es);
}

void
explain_install_hook(void)
{
	next_explain = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_one_query;
}

/*
 * A line under EXPLAIN ANALYZE, and under the plans that auto_explain logs, that says how many of
 * the query's scans were registered.
 *
 * Up to 17 a plan node's own lines cannot be added to (18 has a hook for it), so the line stands
 * behind the whole plan, and only in the text format: the others describe each query by one object
 * that is closed by then. Under EXPLAIN it belongs to the summary: who turns that off wants output
 * that does not change. Workers' and EXECUTE's scans are not in it.
 *
 * auto_explain writes its message when the executor ends the query; the message is known by its
 * format, and gets the line before it is written. The query is then the one that the executor has
 * finished last, and what it has registered is noted there.
 */
#include "pg_pagecast.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "utils/guc.h"

#define LINE "Scans registered by pg_pagecast"
/* auto_explain.c, in 15 and 17. */
#define AUTO_EXPLAIN_MESSAGE "duration: %.3f ms  plan:\n%s"

/* A query that runs and has scans that are observed. */
typedef struct ObservedQuery
{
	struct ObservedQuery *next;
	const EState *state;
	uint64		registered_before;
	MemoryContextCallback gone;
} ObservedQuery;

static ExplainOneQuery_hook_type next_explain = NULL;
static ExecutorFinish_hook_type next_executor_finish = NULL;
static emit_log_hook_type next_emit_log = NULL;

static ObservedQuery *observed_queries = NULL;
/* Of the query that was finished last. */
static uint64 registered_by_finished = 0;

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
		ExplainPropertyUInteger(LINE, NULL, registered, es);
}

static void
forget_query(void *argument)
{
	ObservedQuery **at = &observed_queries;

	while (*at != NULL && *at != argument)
		at = &(*at)->next;
	if (*at != NULL)
		*at = (*at)->next;
}

/* A query begins of which scans are observed. */
void
explain_query_starts(EState *state)
{
	ObservedQuery *query = MemoryContextAlloc(state->es_query_cxt, sizeof(ObservedQuery));

	query->state = state;
	query->registered_before = scans_registered_here();
	query->next = observed_queries;
	observed_queries = query;
	query->gone.func = forget_query;
	query->gone.arg = query;
	MemoryContextRegisterResetCallback(state->es_query_cxt, &query->gone);
}

static void
executor_finish(QueryDesc *query)
{
	const ObservedQuery *observed;

	if (next_executor_finish)
		next_executor_finish(query);
	else
		standard_ExecutorFinish(query);
	observed = observed_queries;
	while (observed != NULL && observed->state != query->estate)
		observed = observed->next;
	registered_by_finished = observed ? scans_registered_here() - observed->registered_before : 0;
}

/* In the context of the error, with whose memory the message goes. */
static void
emit_log(ErrorData *error)
{
	if (registered_by_finished > 0 && error->message_id && strcmp(error->message_id, AUTO_EXPLAIN_MESSAGE) == 0)
	{
		const char *format = GetConfigOption("auto_explain.log_format", true, false);

		if (format && strcmp(format, "text") == 0)
			error->message = psprintf("%s\n" LINE ": %llu", error->message, (unsigned long long) registered_by_finished);
	}
	if (next_emit_log)
		next_emit_log(error);
}

void
explain_install_hook(void)
{
	next_explain = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_one_query;
	next_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	next_emit_log = emit_log_hook;
	emit_log_hook = emit_log;
}

/*
 * Two lines under EXPLAIN ANALYZE, and under the plans that auto_explain logs: how many of the
 * query's scans were registered, and how many chunks its cooperative scans got, of these how many
 * from the reads of other scans.
 *
 * Up to 17 a plan node's own lines cannot be added to (18 has a hook for it), so the lines stand
 * behind the whole plan, and only in the text format: the others describe each query by one object
 * that is closed by then. Under EXPLAIN they belong to the summary: who turns that off wants output
 * that does not change. Workers' and EXECUTE's scans are not in the first, and are in the second.
 *
 * auto_explain writes its message when the executor ends the query; the message is known by its
 * format, and gets the lines before it is written. The query is then the one that the executor has
 * finished last, and what its scans did is noted there.
 */
#include "pg_pagecast.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "utils/guc.h"

#define SCANS "Scans registered by pg_pagecast"
#define CHUNKS "Chunks read together by pg_pagecast"
/* auto_explain.c, in 15 and 17. */
#define AUTO_EXPLAIN_MESSAGE "duration: %.3f ms  plan:\n%s"

/* What scans of this session have done: so far, or for one query. */
typedef struct ScansDone
{
	uint64		registered;
	ChunksRead	read;
} ScansDone;

/* A query that runs and has scans that are observed. */
typedef struct ObservedQuery
{
	struct ObservedQuery *next;
	const EState *state;
	ScansDone	before;
	MemoryContextCallback gone;
} ObservedQuery;

static ExplainOneQuery_hook_type next_explain = NULL;
static ExecutorFinish_hook_type next_executor_finish = NULL;
static emit_log_hook_type next_emit_log = NULL;

static ObservedQuery *observed_queries = NULL;
/* Of the query that was finished last. */
static ScansDone by_finished;

static ScansDone
done_so_far(void)
{
	return (ScansDone) {scans_registered_here(), chunks_read_here()};
}

static ScansDone
done_since(ScansDone before)
{
	ScansDone	done = done_so_far();

	done.registered -= before.registered;
	done.read.chunks -= before.read.chunks;
	done.read.shared -= before.read.shared;
	return done;
}

/* The lines of what was done, each in front of a line break or behind one. */
static void
append_lines(StringInfo text, const ScansDone *done, const char *before, const char *after)
{
	if (done->registered > 0)
		appendStringInfo(text, "%s" SCANS ": " UINT64_FORMAT "%s", before, done->registered, after);
	if (done->read.chunks > 0)
		appendStringInfo(text, "%s" CHUNKS ": " UINT64_FORMAT ", " UINT64_FORMAT " of them from other scans' reads%s",
						 before, done->read.chunks, done->read.shared, after);
}

static void
explain_one_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *query_string,
				  ParamListInfo params, QueryEnvironment *environment)
{
	ScansDone	before = done_so_far();
	ScansDone	done;

	if (next_explain)
		next_explain(query, cursor_options, into, es, query_string, params, environment);
	else
		plain_explain_one_query(query, cursor_options, into, es, query_string, params, environment);
	done = done_since(before);
	if (es->analyze && es->summary && es->format == EXPLAIN_FORMAT_TEXT)
		append_lines(es->str, &done, "", "\n");
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
	query->before = done_so_far();
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
	by_finished = observed ? done_since(observed->before) : (ScansDone) {0};
}

/* In the context of the error, with whose memory the message goes. */
static void
emit_log(ErrorData *error)
{
	if ((by_finished.registered > 0 || by_finished.read.chunks > 0) && error->message_id && strcmp(error->message_id, AUTO_EXPLAIN_MESSAGE) == 0)
	{
		const char *format = GetConfigOption("auto_explain.log_format", true, false);

		if (format && strcmp(format, "text") == 0)
		{
			StringInfoData text;

			initStringInfo(&text);
			appendStringInfoString(&text, error->message);
			append_lines(&text, &by_finished, "\n", "");
			error->message = text.data;
		}
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

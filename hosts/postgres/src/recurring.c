/*
 * Statements that come back: reports by cron, dashboards. What one has read is expected to be read
 * again when it is due, and stays if nothing else is wanted sooner.
 *
 * Source: crates/pagecast-core/src/forecast, which learns when; what no running and no expected
 * scan wants leaves first. Here a scan gets the name of its statement: the server's queryid, the
 * node, the table, and for scans of a part of it the literals that say which part. A date of the
 * last 400 days counts by its age, so that the last seven days are one report. A rescan, a part
 * that other rows choose, and a scan that ends early are not expected. Who knows when a statement
 * comes again, as a scheduler does, sets pg_pagecast.again_in: it is expected from its first run
 * on.
 *
 * Suits reports that read a part of the pool by bitmap scans, beside others that fill it in
 * between. What a stock server reads through a ring of buffers is not there to be kept, and what
 * scans read together chunk_memory.c keeps.
 *
 * Cost: a look at the literals for each scan that is registered; at the end of a query whose
 * process has read blocks, and while something is expected, a look at the clock's hand
 * (steering.c).
 * Memory: 128 kB, and a place among `max_scans` for each statement.
 */
#include "recurring.h"

#include <time.h>

#include "access/parallel.h"
#include "common/hashfn.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/date.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/* Days for which a date counts by its age. */
#define MOVES 400

/* What is known so far of the literals of a scan. */
typedef struct Literals
{
	uint64		hash;
	int64		today;			/* days since 2000, as dates are */
	ParamListInfo parameters;
} Literals;

static PredictorTemplates
templates(void)
{
	return (PredictorTemplates) {.at = shared_templates, .start = shared->clock_start};
}

/* The day of a date or a timestamp. */
static bool
day_of(Oid type, Datum value, int64 *day)
{
	switch (type)
	{
		case DATEOID:
			*day = DatumGetDateADT(value);
			return true;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*day = DatumGetTimestamp(value) / USECS_PER_DAY;
			return true;
		default:
			return false;
	}
}

static void
add(Literals *literals, uint64 hash)
{
	literals->hash = hash_combine64(literals->hash, hash);
}

static void
add_value(Literals *literals, Oid type, Datum value, bool is_null)
{
	int64		day;
	int16		length;
	bool		by_value;

	if (is_null)
	{
		add(literals, 0);
		return;
	}
	if (day_of(type, value, &day) && literals->today - day >= -MOVES && literals->today - day <= MOVES)
	{
		add(literals, literals->today - day);
		return;
	}
	get_typlenbyval(type, &length, &by_value);
	if (by_value)
		add(literals, hash_bytes_extended((unsigned char *) &value, sizeof(value), 1));
	else
		add(literals, hash_bytes_extended((unsigned char *) DatumGetPointer(value), datumGetSize(value, by_value, length), 1));
}

/* Whether an expression depends on what is not known before the query runs; its literals and
 * parameters are added. */
static bool
add_literals(Node *node, void *argument)
{
	Literals   *literals = argument;
	const Param *parameter = (const Param *) node;
	const ParamExternData *value;
	ParamExternData place;

	if (node == NULL)
		return false;
	if (IsA(node, Const))
	{
		const Const *literal = (const Const *) node;

		add_value(literals, literal->consttype, literal->constvalue, literal->constisnull);
		return false;
	}
	if (!IsA(node, Param))
		return expression_tree_walker(node, add_literals, argument);
	if (parameter->paramkind != PARAM_EXTERN || literals->parameters == NULL || parameter->paramid > literals->parameters->numParams)
		return true;
	value = literals->parameters->paramFetch ?
		literals->parameters->paramFetch(literals->parameters, parameter->paramid, true, &place) :
		&literals->parameters->params[parameter->paramid - 1];
	if (!OidIsValid(value->ptype))
		return true;
	add_value(literals, value->ptype, value->value, value->isnull);
	return false;
}

/*
 * Before a scan registers: says which statement it is of, the first time in a query. `which` are
 * the conditions that say which part of the table it reads; NIL if it reads all.
 */
void
recurring_name(Registration *registration, const PlanState *node, List *which)
{
	const EState *state = node->state;
	Literals	literals = {.today = GetCurrentTimestamp() / USECS_PER_DAY, .parameters = state->es_param_list_info};

	registration->statement = 0;
	if (registration->named || IsParallelWorker() || !pagecast_forecast || state->es_plannedstmt == NULL ||
		state->es_plannedstmt->queryId == 0)
		return;
	registration->named = true;
	if (add_literals((Node *) which, &literals))
		return;
	registration->queryid = state->es_plannedstmt->queryId;
	add(&literals, registration->queryid);
	add(&literals, (uint64) registration->name << 32 | registration->plan_node);
	registration->statement = Max(literals.hash, 1);
}

/* Under the lock: the statement of a scan that has its place begins, once. */
void
recurring_begins(Registration *registration, ScanSlot *slot, uint64 now)
{
	if (registration->statement == 0 || slot->statement != 0)
		return;
	slot->statement = registration->statement;
	slot->queryid = registration->queryid;
	registration->statement = 0;
	predictor_begins(predictor, templates(), slot->statement, slot->name, pagecast_again_in, now);
}

/* Under the lock: a scan leaves its place. Expects it again if its statement may come back and it
 * has read all. Whether it was running. */
bool
recurring_ends(const ScanSlot *slot, uint64 now)
{
	if (slot->statement == 0 || !scan_has_ended(slot->scan))
		return predictor_finish(predictor, slot->scan, now);
	pg_atomic_write_u32(&shared->expects, 1);
	return predictor_ends(predictor, templates(), slot->statement, slot->scan, now);
}

/* Under the lock: from time to time. */
void
recurring_review(uint64 now)
{
	if (pg_atomic_read_u32(&shared->expects) != 0)
		pg_atomic_write_u32(&shared->expects, predictor_review(predictor, templates(), now));
}

/* At the end of a query, which may have been of any kind: what its process has read has taken
 * buffers, and some of the next ones may be of expected scans. */
void
recurring_query_ends(void)
{
	static int64 seen = 0;
	int64		read = pgBufferUsage.shared_blks_read - seen;

	seen = pgBufferUsage.shared_blks_read;
	if (read > 0 && pagecast_enabled && pg_atomic_read_u32(&shared->expects) != 0)
		make_room_for_expected(read);
}

size_t
recurring_size(void)
{
	return predictor_templates_bytes();
}

void
recurring_format(void)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	shared->clock_start = wall.tv_sec - pagecast_now() / UINT64CONST(1000000000);
	pg_atomic_init_u32(&shared->expects, 0);
	memset(shared_templates, 0, recurring_size());
	predictor_templates_format(templates());
}

/* The statement of a place, with where its expected scan has been, if one is expected; the result
 * is predictor_template()'s. */
int
recurring_view(size_t place, PredictorTemplate *view, ScanSlot *slot)
{
	int			found;

	LWLockAcquire(shared->lock, LW_SHARED);
	found = predictor_template(predictor, templates(), place, view);
	if (found == 1 && view->length > 0)
		*slot = scan_slots[predictor_slot(view->scan)];
	LWLockRelease(shared->lock);
	return found;
}

/* Whether it was known. */
bool
recurring_forget(uint64 statement)
{
	bool		known;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	known = predictor_forget(predictor, templates(), statement, pagecast_now());
	LWLockRelease(shared->lock);
	return known;
}

/*
 * Scans whose place a timer looks at, so that their tuples cost nothing: sequential scans always,
 * bitmap and index scans while the pool is calm, that is while nothing is evicted on their account.
 *
 * A timer of the server (utils/timeout.h) runs every SAMPLE_MS while the executor runs a query that
 * has such a scan. Its handler interrupts the process between two instructions of the scan, and
 * only reads what lives as long as the scan is listed: the scan's descriptor, the plan node, the
 * server's counts of an index. A scan that has to do more is called before its next tuple
 * (node_call.c).
 *
 * Calm: for CALM_BLOCKS blocks the process has read nothing from disk, and the frontier
 * (steering.c) has stood still for everybody. Then nobody asks which page a scan wants or has used,
 * and what an observer does at each tuple and block can wait until somebody does; that is noticed
 * within SAMPLE_MS. Who is not registered never rests: the timer wakes a process that waits for
 * another's read, and so shortens the turns of those that run. With 64 scans along the table, of
 * which each finds what it has just read, that made half as many misses again.
 *
 * Source: ours; the paper's server reports at each block. Cost: two system calls for each run of
 * such a query, a microsecond or two every SAMPLE_MS, and nothing for all other queries.
 */
#include "sampling.h"

#include "access/xact.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#define SAMPLE_MS 10
#define CALM_BLOCKS 256

/* The handler only reads the list; what is taken from it is taken before anything of it goes. */
static SampledScan *volatile sampled = NULL;
static TimeoutId timer = MAX_TIMEOUTS;

/* Whether the scan is registered and has read all its blocks. */
static bool
is_left_over(const SampledScan *scan)
{
	return scan->registration->scan != NO_SCAN && scan->routine->has_ended(scan);
}

/* In a signal handler. */
static void
sample_all(void)
{
	for (SampledScan *scan = sampled; scan != NULL; scan = scan->next)
	{
		if (is_left_over(scan))
			registration_mark_ended(scan->registration);
		else
			scan->routine->look(scan);
	}
}

/* Before a scan of this process is registered: those that have ended give up their places. They are
 * looked at still, for they may begin anew. */
void
sampling_finish_ended(void)
{
	for (SampledScan *scan = sampled; scan != NULL; scan = scan->next)
	{
		if (!is_left_over(scan))
			continue;
		if (scan->routine->end)
			scan->routine->end(scan);
		registration_end(scan->registration);
	}
}

static bool
timer_runs(void)
{
	return timer != MAX_TIMEOUTS && get_timeout_active(timer);
}

/* An error that a subtransaction has caught leaves the timer running where a cursor rests. */
static void
transaction_ended(XactEvent event, void *argument)
{
	if (timer_runs())
		disable_timeout(timer, false);
}

static void
start_timer(void)
{
	if (timer == MAX_TIMEOUTS)
	{
		timer = RegisterTimeout(USER_TIMEOUT, sample_all);
		RegisterXactCallback(transaction_ended, NULL);
	}
	if (!get_timeout_active(timer))
		enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SAMPLE_MS), SAMPLE_MS);
}

static bool
samples_any_of(const EState *state)
{
	const SampledScan *scan = sampled;

	while (scan != NULL && scan->state != state)
		scan = scan->next;
	return scan != NULL;
}

/* From now on, while the executor runs. */
void
sampling_begin(SampledScan *scan, EState *state, Registration *registration, const SampledScanRoutine *routine)
{
	scan->state = state;
	scan->registration = registration;
	scan->routine = routine;
	scan->next = sampled;
	pg_compiler_barrier();
	sampled = scan;
	start_timer();
}

/* Of one that is not sampled does no harm. The last one stops the timer, also after an error that a
 * subtransaction has caught. */
void
sampling_stop(SampledScan *scan)
{
	SampledScan *volatile *at = &sampled;

	while (*at != NULL && *at != scan)
		at = (SampledScan *volatile *) &(*at)->next;
	if (*at != scan)
		return;
	*at = scan->next;
	pg_compiler_barrier();
	if (sampled == NULL && timer_runs())
		disable_timeout(timer, false);
}

/* When the executor begins to run a query. Whether the timer ran before, for sampling_rest(). */
bool
sampling_run(const EState *state)
{
	bool		ran = timer_runs();

	if (sampled != NULL && !ran && samples_any_of(state))
		start_timer();
	return ran;
}

/* When it returns; where the scans then are may be where they stay. */
void
sampling_rest(bool ran)
{
	if (ran || !timer_runs())
		return;
	disable_timeout(timer, false);
	sample_all();
}

/* Before the executor ends a query, and with it what the handler reads. */
void
sampling_end(const EState *state)
{
	SampledScan *next;

	for (SampledScan *scan = sampled; scan != NULL; scan = next)
	{
		next = scan->next;
		if (scan->state != state)
			continue;
		sampling_stop(scan);
		if (scan->registration->scan != NO_SCAN && scan->routine->end)
			scan->routine->end(scan);
	}
}

/* In a signal handler too. */
bool
calm_lasts(const Calm *calm)
{
	return pgBufferUsage.shared_blks_read == calm->reads && pg_atomic_read_u64(&shared->frontier) == calm->frontier;
}

/* At each block that a registered scan comes to: whether it may rest. */
bool
calm_has_come(Calm *calm)
{
	if (calm_lasts(calm))
		return ++calm->blocks >= CALM_BLOCKS;
	calm->reads = pgBufferUsage.shared_blks_read;
	calm->frontier = pg_atomic_read_u64(&shared->frontier);
	calm->blocks = 0;
	return false;
}

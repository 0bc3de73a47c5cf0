/*
 * Choosing the server's next victims: clock steering, which sets the usage counts ahead of its hand
 * so that it takes the buffers that are wanted last; or its freelist.
 *
 * Sources and deviations: crates/pagecast-core/src/steering.rs, which chooses. Here is only the way
 * from buffer headers there and back. The server evicts by its own rules; nothing is evicted or
 * written here.
 *
 * The frontier is the place, counted in buffers since the server's start, up to which the buffers
 * were looked at. Who finds less than one window between the hand and the frontier moves the
 * frontier on by one, and looks at the window that it has so got for itself: no lock, and no buffer
 * is looked at twice in a round. Buffers that the hand reaches before anybody could look are taken
 * or spared by the counts that they have, as on a server without us.
 *
 * With pg_pagecast.mode = freelist the window is looked at when the server's freelist is empty, and
 * its victims go there; the hand then moves only when the list is drained by those who register
 * nothing. Counts are lowered here as the hand would, so that pages which nobody uses any more are
 * found out.
 *
 * Cost: a spin lock after a miss (freelist: a load), and for each samples * bulk buffers one look
 * at their headers and one choice; one block in TIMED is timed. Bytes per buffer: 8.
 */
#include "pg_pagecast.h"

#include <float.h>

#include "miscadmin.h"

#define WORTH 8
#define TRIAL 8
#define FIRST_LOOK 1
#define TIMED 8
#define FIRST_REST_NS UINT64CONST(10000000000)
#define MOST_REST_NS UINT64CONST(320000000000)
#define MOST_CANDIDATES (MOST_SAMPLES * MOST_BULK)
static PredictorCandidate candidates[MOST_CANDIDATES];
/* The header as it was found, by place in the window. */
static uint32 found_states[MOST_CANDIDATES];

static inline void
count_trial(TrialCount trial, uint64 by)
{
	pg_atomic_fetch_add_u64(&shared->trial[trial], by);
}

/* Takes the next window if the hand is near: its first buffer, counted from the server's start. */
static bool
take_window(uint32 window, uint64 *start)
{
	uint32		passes;
	uint32		hand = StrategySyncStart(&passes, NULL);
	uint64		at = (uint64) passes * NBuffers + hand;
	uint64		frontier = pg_atomic_read_u64(&shared->frontier);

	/* After a restart of the clock, or 2^32 rounds, the frontier may lie anywhere. */
	if (frontier < at || frontier > at + 4 * (uint64) window + NBuffers)
		*start = at;
	else if (frontier < at + window)
		*start = frontier;
	else
		return false;
	return pg_atomic_compare_exchange_u64(&shared->frontier, &frontier, *start + window);
}

/* Reads a header without its lock. The page may change on the way; what is then said of it is a
 * wrong hint. */
static bool
look(uint32 buffer, PredictorCandidate *candidate, uint32 *state)
{
	BufferDesc *header = GetBufferDescriptor(buffer);
	RelFileLocator locator;

	*state = pg_atomic_read_u32(&header->state);
	if (BUF_STATE_GET_REFCOUNT(*state) > 0 || (*state & (BM_TAG_VALID | BM_VALID | BM_LOCKED)) != (BM_TAG_VALID | BM_VALID) ||
		tag_fork(&header->tag) != MAIN_FORKNUM)
		return false;
	locator = tag_locator(&header->tag);
	candidate->page = predictor_page(pagecast_relation_name(&locator), header->tag.blockNum);
	candidate->usage = BUF_STATE_GET_USAGECOUNT(*state);
	candidate->uses = pg_atomic_read_u64(&buffer_uses[buffer]);
	candidate->wanted_in = UINT64_MAX;
	candidate->predicted = false;
	return true;
}

/* Sets the usage count, unless anything about the buffer has changed: then somebody uses it, and
 * the count is his. */
static void
apply(const PredictorCandidate *candidate, uint32 state, uint32 buffer)
{
	uint32		wanted = (state & ~BUF_USAGECOUNT_MASK) | (uint32) candidate->usage << BUF_USAGECOUNT_SHIFT;

	pg_atomic_write_u64(&buffer_uses[buffer], candidate->uses);
	if (wanted != state)
		pg_atomic_compare_exchange_u32(&GetBufferDescriptor(buffer)->state, &state, wanted);
}

/* Looks at a window and has it judged; how many buffers of it can be evicted, and how many are
 * given up. */
static uint32
judge(uint64 start, uint32 window, uint32 *given)
{
	PredictorSwitches switches = {.frequency = pagecast_frequency, .fallback = pagecast_fallback};
	PredictorChoice choice = {0};
	uint64		now = pagecast_now();
	uint32		found = 0;

	for (uint32 i = 0; i < window; i++)
	{
		candidates[found].frame = i;
		if (look((start + i) % NBuffers, &candidates[found], &found_states[i]))
			found++;
	}
	predictor_choose(predictor, candidates, found, window / pagecast_samples, &switches, now, &choice);
	count(COUNT_STEERED, found);
	count(COUNT_PREDICTED, choice.predicted);
	count(COUNT_BY_USES, choice.by_uses);
	count(COUNT_GIVEN, choice.given);
	count(COUNT_KEPT, choice.kept);
	registration_suspend_idle(now);
	*given = choice.given;
	return found;
}

/* How many buffers are given up. */
static uint32
steer(uint64 start, uint32 window)
{
	uint32		given;
	uint32		found = judge(start, window, &given);

	for (uint32 i = 0; i < found; i++)
	{
		uint32		place = candidates[i].frame;

		apply(&candidates[i], found_states[place], (start + place) % NBuffers);
	}
	return given;
}

/*
 * The mode freelist: the victims of a window go to the server's list of buffers to be taken first,
 * and the hand rests.
 *
 * Race: nothing is evicted here, and a buffer on the list is like any other, found and pinned by
 * whoever wants its page. Who takes it from the list looks at it again under its header's lock,
 * throws it away if it is pinned or its usage count is not 0, and else evicts it by the server's
 * rules: writes it if it is dirty, forgets its page under the partition's lock. The server has this
 * check since the days when VACUUM listed valid buffers. A page that is used between here and there
 * therefore stays. Dropping a table, or evicting the buffer on another way, leaves it listed with
 * another page or none; the check covers that too. The spin lock of the list guards against listing
 * a buffer twice.
 */
static uint32
fill_freelist(uint32 window)
{
	uint64		start = pg_atomic_fetch_add_u64(&shared->frontier, window);
	uint32		given;
	uint32		found = judge(start, window, &given);
	uint32		wanted = window / pagecast_samples;

	for (uint32 i = 0; i < found; i++)
	{
		uint32		place = candidates[i].frame;
		uint32		buffer = (start + place) % NBuffers;
		bool		victim = candidates[i].usage == 0 && wanted > 0;

		if (!victim)
			predictor_pass(&candidates[i], 1);
		apply(&candidates[i], found_states[place], buffer);
		if (victim)
		{
			StrategyFreeBuffer(GetBufferDescriptor(buffer));
			wanted--;
		}
	}
	return given;
}

static inline uint64
so_far(TrialCount count)
{
	return pg_atomic_read_u64(&shared->trial[count]);
}

/*
 * Nanoseconds that a block takes longer which the server has to read: of those that were timed the
 * mean of the read ones less that of the hits. Where the kernel has the file in memory it is the
 * copy. Without a limit as long as no read was timed: what is not known is no reason to rest.
 */
static double
read_ns(void)
{
	double		hit = (double) so_far(TRIAL_HIT_NS) / Max(so_far(TRIAL_TIMED_HITS), 1);
	uint64		reads = so_far(TRIAL_TIMED_READS);

	if (pagecast_read_time >= 0)
		return pagecast_read_time * 1e6;
	return reads == 0 ? DBL_MAX : Max((double) so_far(TRIAL_READ_NS) / reads - hit, 0);
}

static void
begin_trial(void)
{
	for (int i = 0; i < TRIAL_COUNTS; i++)
		pg_atomic_write_u64(&shared->trial[i], 0);
}

/* Whether the trial, of so many victims, has paid. */
static bool
has_paid(uint64 given)
{
	uint64		found = so_far(TRIAL_FOUND);

	return found * WORTH >= given && found * read_ns() >= so_far(TRIAL_CHOOSING_NS);
}

/*
 * Whether steering stands aside. For WORTH victims that it chooses a scan has to find one page that
 * was kept: what is kept in vain takes the place of pages that others use, as in a mix of many
 * queries over much more than the pool. And the reads that it saves have to take longer than it
 * does. That is looked at after TRIAL victims for each buffer, or after FIRST_LOOK if it would not
 * pay although all were found; then the server's clock goes on by itself for FIRST_REST_NS, and for
 * twice as long each time until steering pays. Victims are counted and not what is kept, which
 * grows with the samples.
 *
 * Measured (found for a victim): bitmap scans 0.7, trailing index scans 0.3, which gain; TPC-H 0.03
 * to 0.13, which loses. A victim takes 2 us, among 64 trailing scans 16; a read from the kernel's
 * memory 3.
 *
 * Race: of two that look at once one ends the trial, the other chooses once more.
 */
static bool
stands_aside(void)
{
	uint64		given = so_far(TRIAL_GIVEN);
	uint64		rest,
				rests_until,
				now;
	bool		pays;

	if (given < (uint64) NBuffers * FIRST_LOOK ||
		(given < (uint64) NBuffers * TRIAL && given * read_ns() >= so_far(TRIAL_CHOOSING_NS)))
	{
		rests_until = pg_atomic_read_u64(&shared->rests_until);
		if (rests_until == 0 || (now = pagecast_now()) >= rests_until)
			return false;
		registration_suspend_idle(now);
		return true;
	}
	pays = has_paid(given);
	if (!pg_atomic_compare_exchange_u64(&shared->trial[TRIAL_GIVEN], &given, 0))
		return false;
	begin_trial();
	if (pays)
	{
		pg_atomic_write_u64(&shared->rest, FIRST_REST_NS);
		return false;
	}
	rest = Max(pg_atomic_read_u64(&shared->rest), FIRST_REST_NS);
	pg_atomic_write_u64(&shared->rest, Min(rest * 2, MOST_REST_NS));
	pg_atomic_write_u64(&shared->rests_until, pagecast_now() + rest);
	return true;
}

/* A page was found that had been kept. */
void
steering_has_saved(void)
{
	count_trial(TRIAL_FOUND, 1);
}

/* Ends a rest and what was counted. */
void
steering_try_again(void)
{
	begin_trial();
	pg_atomic_write_u64(&shared->rests_until, 0);
	pg_atomic_write_u64(&shared->rest, 0);
}

/* Before something that may read blocks: when it begins if it is timed, as one of TIMED is; else
 * 0. */
uint64
block_begins(void)
{
	static uint32 turn;

	return ++turn % TIMED == 0 ? pagecast_now() : 0;
}

/* And after it: so many were read. */
void
block_ends(uint64 began, int64 read)
{
	if (began == 0)
		return;
	count_trial(read > 0 ? TRIAL_READ_NS : TRIAL_HIT_NS, pagecast_now() - began);
	count_trial(read > 0 ? TRIAL_TIMED_READS : TRIAL_TIMED_HITS, Max(read, 1));
}

/* After so many blocks were read from disk: has victims chosen, as many as a read like that takes
 * at once. The hand would pass all others before anybody looks again. How many are given up. */
static uint32
choose_victims(int64 blocks)
{
	uint32		victims = Min(Max(blocks, pagecast_bulk), MOST_BULK);
	/* In a pool of few buffers a window must not go round. */
	uint32		window = Min(pagecast_samples * victims, Max(NBuffers / 8, Min(pagecast_samples, NBuffers)));
	uint64		start;

	if (pagecast_mode == MODE_FREELIST)
		return have_free_buffer() ? 0 : fill_freelist(window);
	return take_window(window, &start) ? steer(start, window) : 0;
}

/* A registered scan has read so many blocks: sees to it that the next victims are chosen. Whether
 * they are at this time. */
bool
make_room(int64 blocks)
{
	uint64		began;
	uint32		given;

	if (pagecast_mode == MODE_CLOCK || stands_aside())
		return false;
	began = pagecast_now();
	given = choose_victims(blocks);
	if (given > 0)
	{
		count_trial(TRIAL_GIVEN, given);
		count_trial(TRIAL_CHOOSING_NS, pagecast_now() - began);
	}
	return true;
}

/* As make_room(), where others have read, and scans are expected. It rests with it, and what it
 * gives up is no part of the trial: what it keeps is found when scans come, many victims later, and
 * whether they come is known by their trust. */
void
make_room_for_expected(int64 blocks)
{
	/* Where buffers are free the hand stands still. */
	if (pagecast_mode != MODE_CLOCK && !have_free_buffer() && !stands_aside())
		choose_victims(blocks);
}

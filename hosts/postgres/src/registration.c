/*
 * Scans as the predictor knows them: registered, moved on, finished, and cleaned up after whoever
 * could not.
 *
 * Who registers a scan owns it and finishes it. Parallel workers join it: they find it by their
 * leader and the plan's node, and only say how far they are; the furthest counts.
 *
 * A scan ends when its last block has been read, which is long before its query ends: the build
 * side of a hash join, or one of many partitions. Whoever reads that block finishes it then. A
 * signal handler cannot; it marks the scan as ended, and the scan is no longer shown and leaves its
 * place when this process registers another scan, or anybody needs the room.
 *
 * A scan that has not moved for IDLE_AFTER (a cursor that nobody fetches from) is suspended:
 * finished by whoever looks next. Its pages are then wanted by nobody, and when it goes on its
 * owner finds out from registration_reach() and registers it again. Likewise a scan whose process
 * is gone without a trace, which PostgreSQL does not let happen short of a restart.
 */
#include "recurring.h"

#include <time.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define IDLE_AFTER UINT64CONST(2000000000)

/* Whether this process will finish what it has registered on its way out. */
static bool leaves_clean = false;
static uint64 registered_here = 0;

/* How many scans this process has registered so far; for EXPLAIN. */
uint64
scans_registered_here(void)
{
	return registered_here;
}

/* Nanoseconds on the clock that all processes share. */
uint64
pagecast_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64) now.tv_sec * UINT64CONST(1000000000) + now.tv_nsec;
}

/* What the predictor calls a relation. Of one database and tablespace no two have the same name; of
 * several they might, and then pages of one are taken for pages of the other by the estimates,
 * which are hints. */
uint32
pagecast_relation_name(const RelFileLocator *locator)
{
	return locator_number(locator) + locator_database(locator) * 0x9e3779b1u + locator_space(locator) * 0x85ebca6bu;
}

void
registration_init(Registration *registration, ScanKind kind, Relation relation, int plan_node)
{
	RelFileLocator locator = relation_locator(relation);

	memset(registration, 0, sizeof(*registration));
	registration->scan = NO_SCAN;
	registration->kind = kind;
	registration->name = registration->axis = pagecast_relation_name(&locator);
	registration->pid = MyProc->lockGroupLeader ? MyProc->lockGroupLeader->pid : MyProcPid;
	registration->plan_node = plan_node;
	registration->relation = RelationGetRelid(relation);
	registration->last = InvalidBlockNumber;
}

/* Whether all blocks of a scan have been read, as far as anybody has said so; also after it was
 * finished. */
bool
scan_has_ended(uint64 scan)
{
	return pg_atomic_read_u64(&scan_slots[predictor_slot(scan)].ended) == scan;
}

/* Under the lock. */
static void
free_slot(ScanSlot *slot, Counter why)
{
	if (recurring_ends(slot, pagecast_now()))
	{
		count(why, 1);
		pg_atomic_fetch_sub_u32(&shared->active, 1);
	}
	slot->scan = NO_SCAN;
}

/* Under the lock: makes room where nobody will miss it. */
static void
sweep_slots(void)
{
	uint64		now = pagecast_now();

	for (int i = 0; i < pagecast_max_scans; i++)
	{
		ScanSlot   *slot = &scan_slots[i];

		if (slot->scan == NO_SCAN)
			continue;
		if (scan_has_ended(slot->scan))
			free_slot(slot, COUNT_FINISHED);
		else if (BackendPidGetProc(slot->owner) == NULL)
			free_slot(slot, COUNT_REAPED);
		else if (now > pg_atomic_read_u64(&slot->reached) + IDLE_AFTER)
			free_slot(slot, COUNT_SUSPENDED);
	}
}

/* From time to time, by whoever has the hand steered. */
void
registration_suspend_idle(uint64 now)
{
	static uint64 last = 0;

	if (now < last + IDLE_AFTER / 4 || !LWLockConditionalAcquire(shared->lock, LW_EXCLUSIVE))
		return;
	last = now;
	sweep_slots();
	recurring_review(now);
	LWLockRelease(shared->lock);
}

static void
finish_all(int code, Datum argument)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < pagecast_max_scans; i++)
	{
		if (scan_slots[i].scan != NO_SCAN && scan_slots[i].owner == MyProcPid)
			free_slot(&scan_slots[i], COUNT_FINISHED);
	}
	LWLockRelease(shared->lock);
}

/* What is common to all forms of registering; `pages` fills in the predictor's name of the scan. */
typedef struct PagesToRegister
{
	const PredictorRun *runs;
	size_t		count;
	uint64		length;
	const uint64 *bits;
	bool		shared;			/* if another process of the query has registered it, that is joined */
	bool		unordered;		/* the runs are chunks */
	BlockNumber last;			/* of the scan, where it ends with that */
} PagesToRegister;

static int
tell_predictor(const Registration *registration, const PagesToRegister *pages, uint64 now, uint64 *scan)
{
	if (pages->unordered)
		return predictor_register_unordered(predictor, registration->kind, registration->name, pages->runs, pages->count,
											pages->length, now, scan);
	if (pages->bits)
		return predictor_register_bitset(predictor, registration->kind, registration->axis, pages->runs[0].first,
										 pages->bits, pages->count, pages->length, now, scan);
	return predictor_register_runs(predictor, registration->kind, registration->axis, pages->runs, pages->count,
								   pages->length, now, scan);
}

/* Under the lock: takes the scan of the same plan node that another process has registered. */
static bool
find_shared(Registration *registration)
{
	for (int i = 0; i < pagecast_max_scans; i++)
	{
		ScanSlot   *slot = &scan_slots[i];

		if (slot->scan != NO_SCAN && slot->pid == registration->pid && slot->plan_node == registration->plan_node &&
			slot->relation == registration->relation && slot->kind == registration->kind)
		{
			registration->scan = slot->scan;
			registration->last = slot->last;
			registration->owner = false;
			return true;
		}
	}
	return false;
}

static bool
register_pages(Registration *registration, const PagesToRegister *pages)
{
	uint64		now = pagecast_now();
	uint64		scan = NO_SCAN;
	int			status;

	if (!leaves_clean)
	{
		before_shmem_exit(finish_all, (Datum) 0);
		leaves_clean = true;
	}
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (pages->shared && find_shared(registration))
	{
		recurring_begins(registration, &scan_slots[predictor_slot(registration->scan)], now);
		LWLockRelease(shared->lock);
		return true;
	}
	status = tell_predictor(registration, pages, now, &scan);
	if (status == PREDICTOR_FULL)
	{
		sweep_slots();
		status = tell_predictor(registration, pages, now, &scan);
	}
	if (status == PREDICTOR_OK)
	{
		ScanSlot   *slot = &scan_slots[predictor_slot(scan)];

		slot->scan = scan;
		slot->owner = MyProcPid;
		slot->pid = registration->pid;
		slot->plan_node = registration->plan_node;
		slot->database = MyDatabaseId;
		slot->relation = registration->relation;
		slot->name = registration->name;
		slot->member = NO_MEMBER;
		slot->last = pages->last;
		slot->kind = registration->kind;
		slot->statement = 0;
		recurring_begins(registration, slot, now);
		pg_atomic_write_u64(&slot->reached, now);
		pg_atomic_fetch_add_u32(&shared->active, 1);
		registered_here++;
	}
	LWLockRelease(shared->lock);
	count(status == PREDICTOR_OK ? COUNT_REGISTERED : COUNT_REFUSED, 1);
	if (status == PREDICTOR_FULL)
		refusal_tell(registration->relation, "prediction",
					 pg_atomic_read_u32(&shared->active) >= pagecast_max_scans ? ROOM_SCANS : ROOM_MEMORY);
	registration->scan = scan;
	registration->last = pages->last;
	registration->owner = true;
	return status == PREDICTOR_OK;
}

/* The words of a bitset from the first block of the runs to their last. */
static size_t
bitset_words(const PredictorRun *runs, size_t count)
{
	const PredictorRun *last = &runs[count - 1];

	return (last->first + (size_t) last->blocks - runs->first + 63) / 64;
}

/* As a set of bits; the caller frees it. */
static uint64 *
bitset_of_runs(const PredictorRun *runs, size_t count)
{
	uint64	   *bits = MemoryContextAllocExtended(CurrentMemoryContext, bitset_words(runs, count) * sizeof(uint64),
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	for (size_t i = 0; i < count; i++)
	{
		for (uint32 block = 0; block < runs[i].blocks; block++)
		{
			uint32		bit = runs[i].first - runs[0].first + block;

			bits[bit / 64] |= UINT64CONST(1) << (bit % 64);
		}
	}
	return bits;
}

/*
 * Registers a scan of `count` runs in the order of their blocks, at least one, whose positions end
 * at `length`. Whether it found room; if not, the scan runs unpredicted.
 */
bool
register_runs(Registration *registration, const PredictorRun *runs, size_t count, uint64 length)
{
	PagesToRegister pages = {.runs = runs, .count = count, .length = length, .last = runs[count - 1].first + runs[count - 1].blocks - 1};
	uint64	   *bits = NULL;
	bool		registered;

	/* Three words for a run, nine for 512 blocks of a bitset. */
	if (count > bitset_words(runs, count) * 3 / 8)
	{
		bits = bitset_of_runs(runs, count);
		pages.bits = bits;
		pages.count = bitset_words(runs, count);
	}
	registered = register_pages(registration, &pages);
	if (bits)
		pfree(bits);
	return registered;
}

/* As register_runs(), for a scan that the processes of a parallel plan may share: joins it where
 * another has registered it. */
bool
register_shared_runs(Registration *registration, const PredictorRun *runs, size_t count, uint64 length, bool shared_scan)
{
	PagesToRegister pages = {.runs = runs, .count = count, .length = length, .shared = shared_scan, .last = InvalidBlockNumber};

	return register_pages(registration, &pages);
}

/*
 * Registers a scan that reads `blocks` blocks, more than none, by chunks of `chunk` blocks in any
 * order, and says which it has read by registration_complete(). The processes of a parallel plan
 * share it, as with register_shared_runs().
 */
bool
register_chunks(Registration *registration, BlockNumber blocks, BlockNumber chunk, bool shared_scan)
{
	size_t		count = (blocks - 1) / chunk + 1;
	PredictorRun *runs = palloc(count * sizeof(PredictorRun));
	PagesToRegister pages = {.runs = runs, .count = count, .length = count, .shared = shared_scan, .unordered = true,
		.last = InvalidBlockNumber};
	bool		registered;

	for (size_t i = 0; i < count; i++)
		runs[i] = (PredictorRun) {i * chunk, Min(chunk, blocks - i * chunk), i, 0};
	registered = register_pages(registration, &pages);
	pfree(runs);
	return registered;
}

/* Says that a chunk has been read, the first of the table being 0. In a signal handler too. False
 * if the scan is not registered any more. */
bool
registration_complete(const Registration *registration, uint32 chunk)
{
	ScanSlot   *slot;
	uint64		now = pagecast_now();

	if (registration->scan == NO_SCAN)
		return false;
	slot = &scan_slots[predictor_slot(registration->scan)];
	if (*(volatile uint64 *) &slot->scan != registration->scan)
		return false;
	predictor_complete(predictor, registration->scan, chunk, now);
	pg_atomic_write_u64(&slot->reached, now);
	return true;
}

/* In a parallel worker: takes the scan that the leader, or a worker before this one, has
 * registered. Whether there is one. */
bool
registration_join(Registration *registration)
{
	bool		found;

	LWLockAcquire(shared->lock, LW_SHARED);
	found = find_shared(registration);
	LWLockRelease(shared->lock);
	return found;
}

/* Says that the scan has come to `block`. False if it is not registered (any more). */
bool
registration_reach(Registration *registration, BlockNumber block)
{
	uint64		now;

	if (registration->scan == NO_SCAN)
		return false;
	now = pagecast_now();
	if (predictor_reach(predictor, registration->scan, registration->axis, block, now))
	{
		pg_atomic_write_u64(&scan_slots[predictor_slot(registration->scan)].reached, now);
		return true;
	}
	registration->scan = NO_SCAN;
	return false;
}

/* Says that the scan is done with what is in front of `position`. In a signal handler too. False if
 * it is not registered any more, or had ended. */
bool
registration_sample(const Registration *registration, uint64 position)
{
	ScanSlot   *slot = &scan_slots[predictor_slot(registration->scan)];
	uint64		now = pagecast_now();

	/* Without the lock: if it is suspended just now, that is found out the next time. */
	if (*(volatile uint64 *) &slot->scan != registration->scan || scan_has_ended(registration->scan))
		return false;
	predictor_report(predictor, registration->scan, position, now);
	pg_atomic_write_u64(&slot->reached, now);
	return true;
}

static void
flush_counts(Registration *registration)
{
	if (registration->hits + registration->reads == 0)
		return;
	relation_counts_add(registration->relation, registration->hits, registration->reads, registration->saved);
	count(COUNT_HITS, registration->hits);
	count(COUNT_READS, registration->reads);
	count(COUNT_SAVED, registration->saved);
	registration->hits = registration->reads = registration->saved = 0;
}

/* What was kept has been found: at once to who asks whether steering pays. */
static void
count_saved(Registration *registration)
{
	registration->saved++;
	steering_has_saved();
}

/* Notes that the scan has got `block` into `buffer`, which it holds; `came_in` if it is known to
 * have come from disk. What it has found and read is counted by the caller. */
void
registration_count(Registration *registration, BlockNumber block, Buffer buffer, bool came_in)
{
	BufferDesc *header = GetBufferDescriptor(buffer - 1);
	uint8		usage = BUF_STATE_GET_USAGECOUNT(pg_atomic_read_u32(&header->state));
	uint64		uses = pg_atomic_read_u64(&buffer_uses[buffer - 1]);

	/* Of two processes that write it at once one is lost: it is a hint. */
	if (predictor_read_by_scan(&uses, registration->name, block, usage, came_in, pagecast_now()))
		count_saved(registration);
	pg_atomic_write_u64(&buffer_uses[buffer - 1], uses);
	if (registration->hits + registration->reads >= 1024)
		flush_counts(registration);
}

/* Notes that an index scan has found `block` in `buffer`, which it holds: whether it was kept. What
 * it comes back to is left to the usage counts. */
void
registration_count_found(Registration *registration, BlockNumber block, Buffer buffer)
{
	uint64		uses = pg_atomic_read_u64(&buffer_uses[buffer - 1]);

	registration->hits++;
	if (!predictor_found(&uses, registration->name, block))
		return;
	pg_atomic_write_u64(&buffer_uses[buffer - 1], uses);
	count_saved(registration);
}

/* Ends the scan, if it is this process's to end. */
void
registration_finish(Registration *registration)
{
	flush_counts(registration);
	if (registration->scan != NO_SCAN && registration->owner)
	{
		ScanSlot   *slot = &scan_slots[predictor_slot(registration->scan)];

		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		if (slot->scan == registration->scan)
			free_slot(slot, COUNT_FINISHED);
		LWLockRelease(shared->lock);
	}
	registration->scan = NO_SCAN;
}

/* Says that all blocks of the scan have been read, by whoever reads it. In a signal handler too. */
void
registration_mark_ended(const Registration *registration)
{
	ScanSlot   *slot = &scan_slots[predictor_slot(registration->scan)];

	predictor_report(predictor, registration->scan, UINT64_MAX, pagecast_now());
	pg_atomic_write_u64(&slot->ended, registration->scan);
}

/* Ends a scan of which all blocks have been read, also one that this process has only joined. */
void
registration_end(Registration *registration)
{
	registration_mark_ended(registration);
	registration->owner = true;
	registration_finish(registration);
}

void
registration_reset_counts(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	relation_counts_clear();
	for (int i = 0; i < COUNTERS; i++)
		pg_atomic_write_u64(&shared->counters[i], 0);
	pg_atomic_write_u64(&shared->counted_since, (uint64) GetCurrentTimestamp());
	LWLockRelease(shared->lock);
}

/*
 * Cooperative scans of all sessions: registered, and ended on every way out. Who is handed which
 * chunk is decided by the library (predictor/src/cooperation.rs); here are its lock and its memory.
 * chunk_handout.c asks it for each chunk.
 *
 * Chunks: stretches of a power of two of blocks, the same for all scans of a relation that is as
 * large; more blocks in larger tables, so that no table has more than MOST_CHUNKS. The number of
 * chunk 0 of a relation tells the size, too: scans that began while a table was smaller have other
 * chunks, and share nothing with those that began later.
 *
 * Correctness rests on nothing here but that a chunk is handed out once. A scan of one process
 * remembers itself which chunks it has had. So its registration may be suspended: when it has not
 * moved for IDLE_AFTER, whoever comes by ends it, and it registers what is left when it goes on.
 *
 * The processes of a parallel plan take from one registration. The first of them registers, and
 * takes all blocks from stock (version.h); those who come later see that they are taken, and find
 * the registration by the plan's shared memory and node. If there is none, all chunks have been
 * handed out. So it must not end before: it is not suspended, and it ends with its last chunk, or
 * when the leader runs no parallel plan any more, or goes. The leader counts its parallel plans
 * whatever its settings are, because its workers' may be others: a portal may start with the one
 * and run with the other. What is left of an execution that did not read to its end, the next one
 * replaces before it takes the blocks; so nobody joins it.
 *
 * Cost: for each scan one lock, and some looks at the buffer table for each of its chunks.
 */
#include "cooperation.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"

#define MOST_CHUNKS 1024
/* 64 blocks are the smallest chunk of a table that is worth it. */
#define LEAST_CHUNK 64
/* A small table, where cooperation is forced, has so many chunks. */
#define FORCED_CHUNKS 8
#define IDLE_AFTER UINT64CONST(2000000000)
/* A chunk's number: the logarithm of its size, and its place in the relation. 2^32 blocks have 2^26
 * chunks of 64. */
#define PLACE_BITS 27

CooperationState *cooperation_state = NULL;
PredictorMemory cooperation_manager;

/* Whether this process will end what it has registered on its way out. */
static bool leaves_clean = false;
/* Parallel plans that this process leads. */
static uint32 parallel_plans = 0;

bool		pagecast_cooperation = true;
bool		pagecast_cooperation_forced = false;
double		pagecast_cooperation_least = 0.25;

/* What is known of a chunk takes two bits for each scan that there may be. */
static inline int
most_scans(void)
{
	return Min(pagecast_max_scans, MOST_COOPERATING);
}

static CooperationConfig
config(void)
{
	CooperationConfig wanted;

	wanted.scans = most_scans();
	wanted.words = pagecast_memory / 4 * (1024 / sizeof(uint64));
	/* A third of the words for what all scans know of a chunk, the rest for the scans. */
	wanted.chunks = wanted.words / 3 / COOPERATION_CHUNK_WORDS(wanted.scans) + 1;
	return wanted;
}

static Size
size_of_state(void)
{
	return MAXALIGN(offsetof(CooperationState, scans) + mul_size(sizeof(CooperatingScan), most_scans()));
}

Size
cooperation_size(void)
{
	CooperationConfig wanted = config();

	return add_size(size_of_state(), mul_size(sizeof(uint64), cooperation_words(&wanted)));
}

/* Once, by the first process that has the memory. */
static bool
format(void)
{
	CooperationConfig wanted = config();

	cooperation_state->lock = &GetNamedLWLockTranche("pg_pagecast_cooperation")->lock;
	cooperation_state->serial = 0;
	pg_atomic_init_u32(&cooperation_state->active, 0);
	for (int i = 0; i < most_scans(); i++)
	{
		cooperation_state->scans[i].serial = 0;
		pg_atomic_init_u64(&cooperation_state->scans[i].reached, 0);
	}
	return cooperation_format(cooperation_manager, &wanted);
}

bool
cooperation_start(void *memory, Size size, bool found)
{
	cooperation_state = memory;
	cooperation_manager.at = (uint64_t *) ((char *) memory + size_of_state());
	cooperation_manager.words = (size - size_of_state()) / sizeof(uint64);
	return found || format();
}

/* Under the lock. */
void
cooperating_scan_end(CooperatingScan *scan)
{
	cooperation_finish(cooperation_manager, scan->member);
	scan->serial = 0;
	pg_atomic_fetch_sub_u32(&cooperation_state->active, 1);
}

/* Under the lock: of this process, all or those of parallel plans only. */
static void
end_own(bool parallel_only)
{
	for (int i = 0; i < most_scans(); i++)
	{
		CooperatingScan *scan = &cooperation_state->scans[i];

		if (scan->serial != 0 && scan->owner == MyProcPid && (is_parallel(&scan->parallel) || !parallel_only))
			cooperating_scan_end(scan);
	}
}

static void
leave_all(int code, Datum argument)
{
	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	end_own(false);
	LWLockRelease(cooperation_state->lock);
}

static void
leave_clean(void)
{
	if (!leaves_clean)
		before_shmem_exit(leave_all, (Datum) 0);
	leaves_clean = true;
}

/* Under the lock: ends scans that do not move, and those whose process is gone without a trace,
 * which PostgreSQL does not let happen short of a restart. */
static void
suspend_idle(uint64 now)
{
	for (int i = 0; i < most_scans(); i++)
	{
		CooperatingScan *scan = &cooperation_state->scans[i];

		if (scan->serial == 0)
			continue;
		if ((!is_parallel(&scan->parallel) && now > pg_atomic_read_u64(&scan->reached) + IDLE_AFTER) || BackendPidGetProc(scan->owner) == NULL)
			cooperating_scan_end(scan);
	}
}

/* As suspend_idle(), now and then. */
void
cooperation_suspend_idle(uint64 now)
{
	static uint64 last = 0;

	if (now < last + IDLE_AFTER / 4)
		return;
	last = now;
	suspend_idle(now);
}

static BlockNumber
chunk_size(BlockNumber blocks)
{
	BlockNumber size = 1;

	while (size < LEAST_CHUNK && blocks / size > FORCED_CHUNKS)
		size *= 2;
	while ((blocks - 1) / size >= MOST_CHUNKS)
		size *= 2;
	return size;
}

/* Prepares a scan of the first `blocks` blocks, at least one, of a relation. */
void
cooperation_init(Cooperation *cooperation, Relation relation, BlockNumber blocks)
{
	RelFileLocator locator = relation_locator(relation);
	int			shift;

	memset(cooperation, 0, sizeof(*cooperation));
	cooperation->relation = relation;
	cooperation->name = pagecast_relation_name(&locator);
	cooperation->blocks = blocks;
	cooperation->size = chunk_size(blocks);
	cooperation->chunks = (blocks - 1) / cooperation->size + 1;
	for (shift = 0; ((BlockNumber) 1 << shift) < cooperation->size; shift++);
	cooperation->number = (uint32) shift << PLACE_BITS;
	cooperation->held.number = cooperation->ahead.number = NO_CHUNK;
}

/* Whether most of a chunk is in the pool. */
bool
chunk_is_resident(const Cooperation *cooperation, uint32 chunk)
{
	BlockNumber blocks = chunk_blocks(cooperation, chunk);

	return (uint64) chunk_resident(cooperation->relation, chunk * cooperation->size, blocks) * 2 >= blocks;
}

/* What there is no more room in, where a scan finds none. */
static RoomLimit
limit_reached(void)
{
	if (pg_atomic_read_u32(&cooperation_state->active) < most_scans())
		return ROOM_MEMORY;
	return pagecast_max_scans < MOST_COOPERATING ? ROOM_SCANS : ROOM_FIXED;
}

/* Under the lock. Registers what the scan has not had; `resident` has a bit for each chunk. */
bool
cooperation_register_scan(Cooperation *cooperation, const uint64 *resident, uint64 now)
{
	CooperatingScan *scan;
	uint64		member;
	int			status = cooperation_register(cooperation_manager, cooperation->name, cooperation->number, cooperation->chunks,
											 resident, 1, now, &member);

	if (status == PREDICTOR_FULL)
	{
		suspend_idle(now);
		status = cooperation_register(cooperation_manager, cooperation->name, cooperation->number, cooperation->chunks,
									  resident, 1, now, &member);
	}
	cooperation->refused = status == PREDICTOR_FULL;
	cooperation->limit = limit_reached();
	if (status != PREDICTOR_OK)
		return false;
	scan = cooperating_scan(member);
	scan->serial = ++cooperation_state->serial;
	scan->member = member;
	scan->owner = MyProc->lockGroupLeader && is_parallel(&cooperation->parallel) ? MyProc->lockGroupLeader->pid : MyProcPid;
	scan->parallel = cooperation->parallel;
	scan->found = 0;
	pg_atomic_write_u64(&scan->reached, now);
	pg_atomic_fetch_add_u32(&cooperation_state->active, 1);
	cooperation->member = member;
	cooperation->serial = scan->serial;
	for (uint32 chunk = 0; cooperation->had != NULL && chunk < cooperation->chunks; chunk++)
	{
		if (cooperation->had[chunk / 64] >> (chunk % 64) & 1)
			cooperation_remove(cooperation_manager, member, chunk);
	}
	return true;
}

/* Which chunks are in the pool; the caller frees it. */
static uint64 *
resident_chunks(const Cooperation *cooperation)
{
	uint64	   *resident = palloc0((cooperation->chunks + 63) / 64 * sizeof(uint64));

	for (uint32 chunk = 0; chunk < cooperation->chunks; chunk++)
	{
		if (chunk_is_resident(cooperation, chunk))
			resident[chunk / 64] |= UINT64CONST(1) << (chunk % 64);
	}
	return resident;
}

/* Whether the whole relation seems to be in the pool, so that there is nothing to share. */
bool
cooperation_is_resident(const Cooperation *cooperation)
{
	for (uint32 chunk = 0; chunk < cooperation->chunks; chunk++)
	{
		if (!chunk_is_resident(cooperation, chunk))
			return false;
	}
	return true;
}

/* Whether no other scan cooperates, so that chunks come in the order of the table. */
bool
cooperation_alone(const Cooperation *cooperation)
{
	return !is_parallel(&cooperation->parallel) && pg_atomic_read_u32(&cooperation_state->active) <= 1;
}

/* Registers a scan of one process. Whether there was room. `had` is memory for a bit for each
 * chunk, 0 at first. */
bool
cooperation_begin(Cooperation *cooperation, uint64 *had)
{
	uint64	   *resident = resident_chunks(cooperation);
	bool		registered;

	leave_clean();
	cooperation->had = had;
	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	registered = cooperation_register_scan(cooperation, resident, pagecast_now());
	LWLockRelease(cooperation_state->lock);
	pfree(resident);
	return registered;
}

/* Under the lock: the registration of a parallel scan, or NULL. */
static CooperatingScan *
find_parallel(const ParallelScanName *name)
{
	for (int i = 0; i < most_scans(); i++)
	{
		CooperatingScan *scan = &cooperation_state->scans[i];

		if (scan->serial != 0 && scan->parallel.memory == name->memory && scan->parallel.plan_node == name->plan_node)
			return scan;
	}
	return NULL;
}

/* Under the lock: registers a parallel scan of which stock has handed out nothing. What is there of
 * an execution before it, which did not read to its end, goes. */
static bool
register_parallel(Cooperation *cooperation, ParallelTableScanDesc parallel, const uint64 *resident)
{
	CooperatingScan *before = find_parallel(&cooperation->parallel);

	if (before != NULL)
		cooperating_scan_end(before);
	if (!cooperation_register_scan(cooperation, resident, pagecast_now()))
		return false;
	if (parallel_scan_take(parallel))
		return true;
	cooperating_scan_end(cooperating_scan(cooperation->member));
	return false;
}

/*
 * Registers the scan of a parallel plan, or joins it if another process of the plan has. Whether
 * this one takes chunks; if not, it takes blocks as stock does, because somebody already does, or
 * there is no room.
 */
bool
cooperation_begin_parallel(Cooperation *cooperation, ParallelTableScanDesc parallel, ParallelScanName name)
{
	const CooperatingScan *others;
	uint64	   *resident;
	bool		joined = true;

	if (!is_parallel(&name))
		return false;
	resident = parallel_scan_is_taken(parallel) ? NULL : resident_chunks(cooperation);
	cooperation->parallel = name;
	cooperation->member = NO_MEMBER;
	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	if (!parallel_scan_is_taken(parallel))
		joined = register_parallel(cooperation, parallel, resident);
	else if ((others = find_parallel(&name)) != NULL)
	{
		cooperation->member = others->member;
		cooperation->serial = others->serial;
	}
	LWLockRelease(cooperation_state->lock);
	if (resident)
		pfree(resident);
	return joined;
}

/* The process takes no chunk any more. That of one process ends; a parallel one goes on by its
 * other processes. Twice does no harm. */
void
cooperation_end(Cooperation *cooperation)
{
	if (cooperation->serial == 0)
		return;
	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	if (!is_parallel(&cooperation->parallel) && cooperation_is_registered(cooperation))
		cooperating_scan_end(cooperating_scan(cooperation->member));
	LWLockRelease(cooperation_state->lock);
	cooperation->serial = 0;
}

/* The memory of a parallel plan's query goes. What its processes have not read to the end, as below
 * LIMIT, ends with the last one. */
static void
query_ended(void *unused)
{
	if (--parallel_plans > 0 || pg_atomic_read_u32(&cooperation_state->active) == 0)
		return;
	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	end_own(true);
	LWLockRelease(cooperation_state->lock);
}

/* A query starts: if its plan is parallel, this process leads it. */
void
cooperation_query_starts(QueryDesc *query)
{
	MemoryContextCallback *ended;

	if (!query->plannedstmt->parallelModeNeeded || IsParallelWorker())
		return;
	ended = MemoryContextAllocZero(query->estate->es_query_cxt, sizeof(MemoryContextCallback));
	ended->func = query_ended;
	MemoryContextRegisterResetCallback(query->estate->es_query_cxt, ended);
	leave_clean();
	parallel_plans++;
}

/* How a member stands; false if it has ended. */
bool
cooperation_progress(uint64 member, ChunkProgress *progress)
{
	CooperationMember view;
	uint64		shared_chunks;
	bool		found;

	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	found = cooperation_member(cooperation_manager, member, &view);
	shared_chunks = cooperating_scan(member)->found;
	LWLockRelease(cooperation_state->lock);
	if (found)
		*progress = (ChunkProgress) {.chunks = view.chunks, .done = view.chunks - view.left - view.out,
			.waited_for = view.left - view.available, .shared = shared_chunks};
	return found;
}

/* The first `most` chunks that are needed, of all databases; how many there are. */
uint32
cooperation_chunks(ChunkView *views, uint32 most)
{
	CooperationChunk *chunks = palloc_extended(mul_size(most, sizeof(CooperationChunk)), MCXT_ALLOC_HUGE);
	uint32		count;

	LWLockAcquire(cooperation_state->lock, LW_EXCLUSIVE);
	count = cooperation_units(cooperation_manager, chunks, most);
	LWLockRelease(cooperation_state->lock);
	for (uint32 i = 0; i < Min(count, most); i++)
	{
		BlockNumber size = (BlockNumber) 1 << (chunks[i].chunk >> PLACE_BITS);
		uint32		place = chunks[i].chunk & ((1U << PLACE_BITS) - 1);

		views[i] = (ChunkView) {.name = chunks[i].relation, .first = place * size, .blocks = size,
			.wanted = chunks[i].wanted, .resident = chunks[i].resident};
	}
	pfree(chunks);
	return count;
}

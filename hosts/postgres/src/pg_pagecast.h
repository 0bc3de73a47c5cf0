/*
 * pg_pagecast: what its files know of each other.
 *
 * Who calls whom: executor.c sees plans start, and puts an observer (bitmap_scan.c, index_scan.c,
 * sequential_scan.c) under the scans that it understands; the observer registers the scan
 * (registration.c) and tells it how far it is; after a miss it has the clock steered (steering.c).
 * While there is no need of that the observer steps aside, and a timer looks where the scan is
 * (sampling.c). What a statement that comes back has read is expected again (recurring.c). views.c
 * shows it.
 */
#ifndef PG_PAGECAST_H
#define PG_PAGECAST_H

#include "postgres.h"

#include "version.h"

#include "executor/instrument.h"
#include "nodes/execnodes.h"
#include "pagecast_cooperation.h"
#include "pagecast_predictor.h"
#include "port/atomics.h"
#include "storage/buf_internals.h"
#include "storage/lwlock.h"
#include "utils/rel.h"

/* What a scan is; part of the predictor's estimate of a new scan's pace, and shown by
 * pg_pagecast_scans. */
typedef enum ScanKind
{
	SCAN_BITMAP,
	SCAN_SEQUENTIAL,
	SCAN_TRAILING,
	SCAN_COOPERATIVE			/* reads its chunks in any order */
} ScanKind;

/* pg_pagecast.mode */
typedef enum EvictionMode
{
	MODE_STEERING,
	MODE_FREELIST,
	MODE_CLOCK					/* the server chooses; for ablations */
} EvictionMode;

/* A registered scan, beside the predictor's own record of it and under the same number. */
typedef struct ScanSlot
{
	uint64		scan;			/* the predictor's name; NO_SCAN while free */
	pg_atomic_uint64 reached;	/* when it last moved on; for idle ones */
	pg_atomic_uint64 ended;		/* the last scan here of which all blocks have been read */
	int			owner;			/* process that has registered it */
	int			pid;			/* of who reads, or leads those who read */
	int			plan_node;		/* in the leader's plan; workers find their scan by it */
	Oid			database;
	Oid			relation;
	uint32		name;			/* of the relation, to predictor and cooperation */
	BlockNumber last;			/* bitmap: its last block */
	ScanKind	kind;
	uint64		member;			/* of the cooperation; NO_MEMBER unless it is cooperative */
	/* Of a statement that may come back, 0 of others; while it is expected they stay with the rest. */
	uint64		statement;
	uint64		queryid;
} ScanSlot;

/* What registered scans read of a relation. */
typedef struct RelationCounts
{
	Oid			database;		/* both InvalidOid for all that have no place of their own */
	Oid			relation;
	uint64		hits;
	uint64		reads;
	uint64		saved;
	uint64		weight;			/* blocks, its own and those of who had the place before */
} RelationCounts;

#define COUNTED_RELATIONS 512

/* A chunk that cooperative scans have had brought into the pool. */
typedef struct HeldChunk
{
	RelFileLocator locator;
	uint32		name;			/* of the relation and of the chunk, to the manager */
	uint32		number;
	BlockNumber first;
	BlockNumber count;
	uint64		taken;			/* how many chunks had been taken when it was last */
} HeldChunk;

#define MOST_HELD_CHUNKS 4096

typedef struct ChunkMemory
{
	uint64		limit;			/* buffers that cooperation may have now */
	uint64		buffers;		/* that its chunks have */
	uint64		takes;
	uint32		held;			/* of `chunks` */
	uint32		looked;			/* at so many chunks for one that may leave */
	uint32		hand;			/* the next buffer that is looked at for cold ones */
	int			reserve;		/* the buffer on top of those that are free for others */
	uint32		missing;		/* buffers until there is such a reserve */
	uint32		round_found;	/* cold ones since it was at 0 */
	bool		ages;			/* usage counts sink in this round */
	uint64		aged;			/* when they sank last */
	uint64		asked;			/* when cold ones were looked for last */
	HeldChunk	chunks[MOST_HELD_CHUNKS];
} ChunkMemory;

/* The order is that of pg_pagecast_stats; a new one is added at the end, and needs a new version of
 * the SQL. */
typedef enum Counter
{
	COUNT_REGISTERED,
	COUNT_REFUSED,
	COUNT_FINISHED,
	COUNT_SUSPENDED,
	COUNT_REAPED,
	COUNT_STEERED,				/* buffers looked at ahead of the hand */
	COUNT_PREDICTED,			/* of these, wanted by a scan */
	COUNT_BY_USES,				/* of these, judged by their uses */
	COUNT_GIVEN,				/* of these, left for the hand to take */
	COUNT_KEPT,					/* of these, saved from it */
	COUNT_HITS,
	COUNT_READS,
	COUNT_SAVED,
	COUNT_CHUNKS,				/* chunks handed to cooperative scans */
	COUNT_CHUNKS_SHARED,		/* of these, brought by another scan's read */
	COUNT_BYTES_SPARED,			/* of the shared chunks */
	COUNTERS
} Counter;

/* Of a trial of steering. */
typedef enum TrialCount
{
	TRIAL_GIVEN,				/* victims that were chosen */
	TRIAL_FOUND,				/* pages that were kept, and found */
	TRIAL_CHOOSING_NS,			/* what choosing took */
	TRIAL_HIT_NS,				/* what the timed calls took that read no block, and those that did, */
	TRIAL_READ_NS,
	TRIAL_TIMED_HITS,			/* and for how many blocks */
	TRIAL_TIMED_READS,
	TRIAL_COUNTS
} TrialCount;

/*
 * In shared memory, followed by the slots, the uses of each buffer, the predictor's own memory and
 * the statements that may come back.
 *
 * `lock` guards registering, finishing, slots and relation counts. The rest is changed by atomics
 * that publish nothing but themselves.
 */
typedef struct SharedState
{
	LWLock	   *lock;
	pg_atomic_uint64 frontier;	/* up to where the buffers ahead of the hand have been looked at */
	pg_atomic_uint64 rests_until,	/* the hand is not steered before */
				rest;			/* for how long it is not, the next time */
	pg_atomic_uint64 trial[TRIAL_COUNTS];	/* since it was last looked whether steering pays */
	pg_atomic_uint32 active;	/* registered scans */
	pg_atomic_uint32 expects;	/* whether any scan is expected, as far as is known */
	uint64		clock_start;	/* second since the epoch at which pagecast_now() was 0 */
	pg_atomic_uint64 counters[COUNTERS];
	pg_atomic_uint64 counted_since; /* TimestampTz of the last reset */
	pg_atomic_uint64 refusal_told;	/* when the log last said that scans are refused; 0: never */
	uint32		counted_relations;	/* of `relations` */
	RelationCounts relations[COUNTED_RELATIONS];
	RelationCounts other_relations;
	ChunkMemory chunk_memory;
} SharedState;

#define NO_SCAN UINT64_MAX
#define NO_MEMBER UINT64_MAX

/* The arrays behind SharedState, as pointers of this process. */
extern SharedState *shared;
extern ScanSlot *scan_slots;
extern pg_atomic_uint64 *buffer_uses;
extern PredictorMemory predictor;
extern void *shared_templates;

/* Settings; pg_pagecast.c describes them. */
extern bool pagecast_enabled;
extern int	pagecast_mode;
extern int	pagecast_samples;
extern int	pagecast_bulk;
extern int	pagecast_frequency;
extern int	pagecast_fallback;
extern double pagecast_read_time;
extern int	pagecast_max_scans;
extern int	pagecast_memory;
extern bool pagecast_forecast;
extern int	pagecast_again_in;
extern bool pagecast_cooperation;
extern bool pagecast_cooperation_forced;
extern double pagecast_cooperation_least;

/* Limits of pg_pagecast.samples and .bulk. */
#define MOST_SAMPLES 100
#define MOST_BULK 100

/* pg_pagecast.c: whether the server was started with the library. */
extern bool pagecast_loaded(void);

/* registration.c */
typedef struct Registration
{
	uint64		scan;			/* NO_SCAN: not registered */
	uint32		name;			/* of the relation, to the predictor */
	uint32		axis;			/* of the relation whose blocks it goes through: the same, or an index */
	int			pid;			/* as in ScanSlot */
	int			plan_node;
	ScanKind	kind;
	Oid			relation;
	BlockNumber last;			/* as in ScanSlot */
	bool		owner;			/* this process has registered it and finishes it */
	bool		named;			/* it was registered before in this query */
	uint64		statement,		/* as in ScanSlot */
				queryid;
	uint64		hits,
				reads,
				saved;			/* since the last flush */
} Registration;

extern uint64 pagecast_now(void);
extern uint64 scans_registered_here(void);
extern uint32 pagecast_relation_name(const RelFileLocator *locator);
extern void registration_init(Registration *registration, ScanKind kind, Relation relation, int plan_node);
extern bool register_runs(Registration *registration, const PredictorRun *runs, size_t count, uint64 length);
extern bool register_shared_runs(Registration *registration, const PredictorRun *runs, size_t count, uint64 length,
								 bool shared_scan);
extern bool register_chunks(Registration *registration, BlockNumber blocks, BlockNumber chunk, bool shared_scan);
extern bool registration_complete(const Registration *registration, uint32 chunk);
extern bool registration_join(Registration *registration);
extern bool registration_reach(Registration *registration, BlockNumber block);
extern bool registration_sample(const Registration *registration, uint64 position);
extern void registration_count(Registration *registration, BlockNumber block, Buffer buffer, bool came_in);
extern void registration_count_found(Registration *registration, BlockNumber block, Buffer buffer);
extern void registration_finish(Registration *registration);
extern void registration_mark_ended(const Registration *registration);
extern void registration_end(Registration *registration);
extern bool scan_has_ended(uint64 scan);
extern void registration_reset_counts(void);
extern void registration_suspend_idle(uint64 now);

/* relation_counts.c */
extern void relation_counts_add(Oid relation, uint64 hits, uint64 reads, uint64 saved);
extern uint32 relation_counts_copy(RelationCounts *copy);
extern void relation_counts_clear(void);
extern void relation_counts_install_hook(void);

/* chunk_counts.c: what cooperative scans were handed, for the views and EXPLAIN. */
typedef struct ChunksRead
{
	uint64		chunks;
	uint64		shared;			/* of these, brought by another scan's read */
} ChunksRead;

extern void chunk_counts_request(void);
extern void chunk_counts_start(void);
/* A scan of this process, or of the query whose worker it is, was handed a chunk of so many
 * blocks. */
extern void chunk_count(BlockNumber blocks, bool shared);
extern ChunksRead chunks_read_here(void);

/* What cooperation.c says to the views. */
typedef struct ChunkProgress
{
	uint32		chunks;			/* of the scan */
	uint32		done;
	uint32		waited_for;		/* needed, and not in the pool */
	uint64		shared;			/* of those handed out, brought by another scan's read */
} ChunkProgress;

/* A chunk that some cooperative scan needs. */
typedef struct ChunkView
{
	uint32		name;			/* of its relation */
	BlockNumber first;
	BlockNumber blocks;
	uint32		wanted;			/* by so many scans that have still to be handed it */
	bool		resident;		/* as far as is known */
} ChunkView;

/* cooperation.c: how a member stands, false if it has ended; and the first `most` chunks that scans
 * need, of all databases: how many there are. */
extern bool cooperation_progress(uint64 member, ChunkProgress *progress);
extern uint32 cooperation_chunks(ChunkView *views, uint32 most);

/* refusal.c */
typedef enum RoomLimit
{
	ROOM_MEMORY,				/* pg_pagecast.memory is full */
	ROOM_SCANS,					/* as many scans as pg_pagecast.max_scans are there */
	ROOM_FIXED					/* MOST_COOPERATING scans cooperate */
} RoomLimit;

/* That cooperate at once; more read as on a stock server. */
#define MOST_COOPERATING 512

extern void refusal_tell(Oid relation, const char *what, RoomLimit limit);

/* executor.c */
extern void executor_install_hooks(void);
extern bool reads_blocks(const Plan *plan, uint32 blocks);

/* node_call.c */
typedef struct NodeCall
{
	PlanState  *node;
	ExecProcNodeMtd original;
	void		(*function) (struct NodeCall *call);
	ExecProcNodeMtd tuple;		/* if not NULL, it is called for each tuple instead of `original` */
	void	   *scan;			/* whose `tuple` is */
	bool		armed;
} NodeCall;

extern bool node_is_observed(PlanState *node);
extern void node_call_init(NodeCall *call, PlanState *node, void (*function) (NodeCall *));
extern uint64 nodes_observed_here(void);
extern void node_call_arm(NodeCall *call);
extern void node_call_replace(NodeCall *call, ExecProcNodeMtd tuple);
extern NodeCall *node_call_of(PlanState *node);
extern void node_call_remove(NodeCall *call);

/* index_order.c */
typedef struct IndexOrder
{
	double		correlation;	/* -1 to 1, of the leading column's values and the table's order */
	double		from,
				to;				/* part of the leading column's values that the scan goes through, 0 to 1 */
	double		error;			/* by how much they may be wrong */
	bool		keys_fall;		/* it goes from high values to low ones */
} IndexOrder;

extern bool index_order(IndexOrder *order, Relation index, Relation table, const ScanKeyData *keys, int count, bool backward);

/* index_scan.c */
extern void observe_index_scan(ScanState *node);

/* sequential_scan.c */
extern void observe_sequential_scan(SeqScanState *node, const PlanState *gather, bool feeds_lookups);

/* cooperation.c, chunk_handout.c */
#define NO_CHUNK UINT32_MAX

/* A chunk that a process was handed. */
typedef struct TakenChunk
{
	uint32		number;			/* from the scan's first; NO_CHUNK: none */
	bool		resident;		/* it was in the pool then */
} TakenChunk;

/* A scan that the processes of a parallel plan share, by what all of them know. No two that run
 * have the same; executions of one after the other do. */
typedef struct ParallelScanName
{
	dsm_handle	memory;			/* of the plan's processes; DSM_HANDLE_INVALID: of one process */
	int			plan_node;
} ParallelScanName;

/* A scan's part in the cooperation, in one process. */
typedef struct Cooperation
{
	Relation	relation;
	uint32		name;			/* of the relation */
	uint32		number;			/* of its first chunk */
	BlockNumber blocks;			/* of the scan */
	BlockNumber size;			/* of a chunk */
	uint32		chunks;
	ParallelScanName parallel;	/* other processes take from the same registration */
	bool		refused;		/* there was no room for it: */
	RoomLimit	limit;
	bool		ended;			/* there is no chunk left for this process */
	uint32		left;			/* chunks that were left to be handed out after the last one */
	uint64		serial;			/* of the registration; 0: none */
	uint64		member;
	uint64	   *had;			/* one process: the chunks that were handed out, a bit each */
	TakenChunk	held;			/* that is read now */
	TakenChunk	ahead;			/* that is read next, if it is known */
} Cooperation;

extern Size cooperation_size(void);
extern bool cooperation_start(void *memory, Size size, bool found);
extern void cooperation_init(Cooperation *cooperation, Relation relation, BlockNumber blocks);
extern bool cooperation_is_resident(const Cooperation *cooperation);
extern bool cooperation_alone(const Cooperation *cooperation);
extern bool cooperation_begin(Cooperation *cooperation, uint64 *had);
extern bool cooperation_begin_parallel(Cooperation *cooperation, ParallelTableScanDesc parallel, ParallelScanName name);
extern void cooperation_end(Cooperation *cooperation);
extern void cooperation_query_starts(QueryDesc *query);

static inline bool
is_parallel(const ParallelScanName *name)
{
	return name->memory != DSM_HANDLE_INVALID;
}
extern bool cooperation_next(Cooperation *cooperation, bool looks_ahead, BlockNumber *first, BlockNumber *blocks);
extern bool cooperation_ahead(const Cooperation *cooperation, BlockNumber *first, BlockNumber *blocks);
extern void cooperation_reach(Cooperation *cooperation, bool readable);
extern bool cooperation_had(const Cooperation *cooperation, uint32 chunk);

/* chunk_read.c */
typedef struct ChunkReader
{
	BlockPrefetch prefetch;
	RelFileLocator locator;
} ChunkReader;

extern void chunk_read_begin(ChunkReader *reader, Relation relation, ForkNumber fork);
extern void chunk_read_ahead(ChunkReader *reader, BlockNumber first, BlockNumber count);
extern void chunk_read_end(ChunkReader *reader);
extern BlockNumber chunk_resident(Relation relation, BlockNumber first, BlockNumber count);

/* chunk_memory.c */
extern int	pagecast_cooperation_share;
extern void chunk_memory_format(void);
typedef void (*ChunkLeft) (uint32 name, uint32 number);
extern void chunk_hold(const HeldChunk *chunk, bool resident, ChunkLeft left);
extern void chunk_release(const HeldChunk *chunk);

/* cooperative_scan.c */
typedef struct CooperativeScan
{
	DirectedScan directed;
	Cooperation cooperation;
	ChunkReader reader;
	NodeCall   *call;			/* of the node */
	Registration *registration;
	uint64	   *had;
	bool		active;			/* the node reads chunks */
	bool		readable;		/* others have been told that they may follow */
	int64		fetched,		/* of the table by this process, when last looked at */
				found;
	BlockNumber begin,			/* of the chunk */
				end,
				next,			/* the block that has not been handed to the scan */
				ahead,			/* that the kernel has not been asked for */
				counted,		/* that is not in the counts of the table */
				window,			/* blocks that are asked for at once */
				asked;			/* where the next chunk begins, if the kernel was asked for it */
} CooperativeScan;

extern bool is_large_table(BlockNumber blocks);
extern void cooperative_scan_permit(QueryDesc *query);
extern bool cooperative_scan_begin(CooperativeScan *scan, NodeCall *call, Registration *registration, const PlanState *gather);
extern void cooperative_scan_restart(CooperativeScan *scan);
extern void cooperative_scan_end(CooperativeScan *scan);

/* bitmap_scan.c: what version.c calls around the heap's own calls. */
typedef struct ObservedBitmap ObservedBitmap;

extern void observe_bitmap_scan(BitmapHeapScanState *node);
extern ObservedBitmap *bitmap_enter(TableScanDesc scan);
extern void bitmap_leave(TableScanDesc scan, ObservedBitmap *observed);
extern void bitmap_leave_or_rest(TableScanDesc scan, ObservedBitmap *observed, bool watched);
extern bool bitmap_goes_on(ObservedBitmap *observed);
extern bool bitmap_comes_to(ObservedBitmap *observed, BlockNumber block);
extern void bitmap_count(ObservedBitmap *observed, int64 found, int64 read);
extern void bitmap_has_read(ObservedBitmap *observed, BlockNumber block, Buffer buffer, bool came_in);
extern void bitmap_end(ObservedBitmap *observed);

/* explain.c */
extern void explain_install_hook(void);
extern void explain_query_starts(EState *state);

/* steering.c */
extern void steering_try_again(void);
extern uint64 block_begins(void);
extern void block_ends(uint64 began, int64 read);
extern bool make_room(int64 blocks);
extern void make_room_for_expected(int64 blocks);
extern void steering_has_saved(void);

static inline void
count(Counter counter, uint64 by)
{
	pg_atomic_fetch_add_u64(&shared->counters[counter], by);
}

#endif							/* PG_PAGECAST_H */

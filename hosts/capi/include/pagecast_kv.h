/* pagecast-kv for C: an ordered key-value store. Generated from hosts/capi/src by cbindgen.
 *
 * Statuses, messages and what the caller promises are those of pagecast.h. A store may be used by
 * several threads at once. Keys and values are bytes; a key of no bytes is a key.
 */

#ifndef PAGECAST_KV_H
#define PAGECAST_KV_H

#include "pagecast.h"

/*
 A store that is open.
 */
typedef struct pagecast_kv pagecast_kv;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens the store in a folder, with so many bytes of memory (0: the default), and makes it if
 there is none. PAGECAST_STATUS_IN_USE: another process has it open.

 # Safety

 (C2), (C3)
 */
pagecast_status pagecast_kv_open(const char *path, uint64_t memory, struct pagecast_kv **store);

/*
 Gives a key its value. It is safe from a crash when this returns.

 # Safety

 (C1), (C3)
 */
pagecast_status pagecast_kv_put(const struct pagecast_kv *store,
                                const uint8_t *key,
                                uintptr_t key_length,
                                const uint8_t *value,
                                uintptr_t value_length);

/*
 Copies the value of a key, as much of it as there is room for, and says how long it is. `found`
 becomes 1, or 0 if there is no such key.

 # Safety

 (C1), (C2), (C3)
 */
pagecast_status pagecast_kv_get(const struct pagecast_kv *store,
                                const uint8_t *key,
                                uintptr_t key_length,
                                uint8_t *value,
                                uintptr_t room,
                                uintptr_t *value_length,
                                uint8_t *found);

/*
 Takes a key away. `was_there` becomes 1, or 0 if there was no such key.

 # Safety

 (C1), (C2), (C3)
 */
pagecast_status pagecast_kv_delete(const struct pagecast_kv *store,
                                   const uint8_t *key,
                                   uintptr_t key_length,
                                   uint8_t *was_there);

/*
 Closes a store, so that it opens without a recovery. The handle is gone also after a failure;
 what was put is then brought back from the log.

 # Safety

 (C1)
 */
pagecast_status pagecast_kv_close(struct pagecast_kv *store);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGECAST_KV_H */

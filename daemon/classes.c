/* SPDX-License-Identifier: MIT */
/* The event classes the daemon knows. A hash table with open addressing; its key is random, because who
 * chooses the names must not be able to choose the collisions. */
#include "daemon/classes.h"

#include <sys/random.h>

struct Classes {
	Account *account;
	Class **slots;
	u32 n_slots, n; /* n_slots: a power of two, at most half full */
	u64 key[2];
};

#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))

/* SipHash-1-3 (Aumasson, Bernstein), fed piece by piece. */
typedef struct {
	u64 v0, v1, v2, v3, tail;
	u64 length;
} Hash;

static void hash_round(Hash *h)
{
	h->v0 += h->v1;
	h->v1 = ROTL(h->v1, 13) ^ h->v0;
	h->v0 = ROTL(h->v0, 32);
	h->v2 += h->v3;
	h->v3 = ROTL(h->v3, 16) ^ h->v2;
	h->v0 += h->v3;
	h->v3 = ROTL(h->v3, 21) ^ h->v0;
	h->v2 += h->v1;
	h->v1 = ROTL(h->v1, 17) ^ h->v2;
	h->v2 = ROTL(h->v2, 32);
}

static void hash_begin(Hash *h, const u64 key[2])
{
	*h = (Hash){ .v0 = key[0] ^ 0x736f6d6570736575ull,
		     .v1 = key[1] ^ 0x646f72616e646f6dull,
		     .v2 = key[0] ^ 0x6c7967656e657261ull,
		     .v3 = key[1] ^ 0x7465646279746573ull };
}

static void hash_feed(Hash *h, const void *data, size_t n)
{
	for (const u8 *p = data; n; p++, n--) {
		h->tail |= (u64)*p << (h->length++ % 8 * 8);
		if (h->length % 8)
			continue;
		h->v3 ^= h->tail;
		hash_round(h);
		h->v0 ^= h->tail;
		h->tail = 0;
	}
}

static u64 hash_end(Hash *h)
{
	u64 last = h->tail | h->length << 56;

	h->v3 ^= last;
	hash_round(h);
	h->v0 ^= last;
	h->v2 ^= 0xff;
	for (int i = 0; i < 3; i++)
		hash_round(h);
	return h->v0 ^ h->v1 ^ h->v2 ^ h->v3;
}

static u64 class_hash(const Classes *c, const struct event_class *class)
{
	Hash h;

	hash_begin(&h, c->key);
	hash_feed(&h, class->provider, strlen(class->provider) + 1);
	hash_feed(&h, class->name, strlen(class->name) + 1);
	hash_feed(&h, &class->level, 1);
	for (u32 i = 0; i < class->n_fields; i++) {
		const struct class_field *f = &class->fields[i];

		hash_feed(&h, f->name, strlen(f->name) + 1);
		hash_feed(&h, &f->type, 1);
		hash_feed(&h, &f->shape, 1);
		hash_feed(&h, &f->count, 2);
	}
	return hash_end(&h);
}

int classes_new(Classes **ret, Account *account)
{
	_cleanup_(classes_freep) Classes *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->account = account;
	c->n_slots = 256;
	c->slots = calloc(c->n_slots, sizeof(*c->slots));
	if (!c->slots)
		return -ENOMEM;
	if (getrandom(c->key, sizeof(c->key), 0) != sizeof(c->key))
		return -EIO;
	*ret = steal_ptr(c);
	return 0;
}

Classes *classes_free(Classes *c)
{
	if (!c)
		return NULL;
	free(c->slots);
	free(c);
	return NULL;
}

/* The slot of an equal class of this user, or the empty one where it belongs. */
static u32 classes_slot(const Classes *c, uid_t uid, u64 hash, const struct event_class *class)
{
	u32 i = (u32)hash & (c->n_slots - 1);

	while (c->slots[i]) {
		const Class *o = c->slots[i];

		if (o->hash == hash && o->uid == uid && class_equal(o->class, class))
			break;
		i = (i + 1) & (c->n_slots - 1);
	}
	return i;
}

static int classes_grow(Classes *c)
{
	Class **old = c->slots, **slots;
	u32 n_old = c->n_slots;

	if (c->n + 1 <= n_old / 2)
		return 0;
	slots = calloc((size_t)n_old * 2, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	c->slots = slots;
	c->n_slots = n_old * 2;
	for (u32 i = 0; i < n_old; i++) {
		u32 at;

		if (!old[i])
			continue;
		at = (u32)old[i]->hash & (c->n_slots - 1);
		while (c->slots[at])
			at = (at + 1) & (c->n_slots - 1);
		c->slots[at] = old[i];
	}
	free(old);
	return 0;
}

int classes_intern(Classes *c, uid_t uid, struct event_class *class, Class **ret, Failure *f)
{
	_cleanup_free_ struct event_class *taken = class;
	u64 hash = class_hash(c, class);
	u32 at = classes_slot(c, uid, hash, class);
	Class *n;
	int r;

	if (c->slots[at]) {
		*ret = class_ref(c->slots[at]);
		return 0;
	}
	r = account_charge(c->account, uid, CHARGE_CLASSES, 1, f);
	if (r < 0)
		return r;
	n = calloc(1, sizeof(*n));
	if (!n || classes_grow(c) < 0) {
		free(n);
		account_release(c->account, uid, CHARGE_CLASSES, 1);
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	*n = (Class){ .class = steal_ptr(taken), .hash = hash, .uid = uid, .n_refs = 1, .pool = c };
	c->slots[classes_slot(c, uid, hash, n->class)] = n;
	c->n++;
	*ret = n;
	return 0;
}

Class *class_ref(Class *c)
{
	c->n_refs++;
	return c;
}

/* Takes slot `at` out and closes the gap, so that every class is still found from its own place. */
static void classes_remove(Classes *c, u32 at)
{
	u32 mask = c->n_slots - 1;

	for (u32 i = (at + 1) & mask; c->slots[i]; i = (i + 1) & mask) {
		u32 home = (u32)c->slots[i]->hash & mask;

		/* may move to `at` unless its home lies behind `at`, in (at, i] */
		if (((i - home) & mask) >= ((i - at) & mask)) {
			c->slots[at] = c->slots[i];
			at = i;
		}
	}
	c->slots[at] = NULL;
	c->n--;
}

Class *class_unref(Class *c)
{
	if (!c || --c->n_refs)
		return NULL;
	classes_remove(c->pool, classes_slot(c->pool, c->uid, c->hash, c->class));
	account_release(c->pool->account, c->uid, CHARGE_CLASSES, 1);
	free(c->class);
	free(c);
	return NULL;
}

bool class_same(const Class *a, const Class *b)
{
	return a == b || (a->hash == b->hash && class_equal(a->class, b->class));
}

u32 classes_n(const Classes *c)
{
	return c->n;
}

void classes_each(const Classes *c, void (*fn)(void *userdata, const Class *class), void *userdata)
{
	for (u32 i = 0; i < c->n_slots; i++)
		if (c->slots[i])
			fn(userdata, c->slots[i]);
}

/* SPDX-License-Identifier: MIT */
/* What each user holds of the daemon. */
#include "daemon/account.h"

#include <stdio.h>

#include "conf/config.h"

#define ACCOUNT_BUCKETS	 256
#define ACCOUNT_LOG_GAP	 (10 * NSEC_PER_SEC)
#define ACCOUNT_BURST	 (50 * NSEC_PER_MSEC)
#define ACCOUNT_SHARE	 10 /* one part in this many of the loop's time */
/* Users remembered only because of their log lines: a machine that hands out uids for fun must not grow us. */
#define ACCOUNT_MAX_IDLE 4096

typedef struct User User;
struct User {
	User *next;
	uid_t uid;
	u64 held[CHARGE_KINDS];
	u64 log_until, swallowed;
	u64 debt, debt_at; /* of the loop's time, as of then */
};

struct Account {
	User *users[ACCOUNT_BUCKETS];
	u32 n_users;
	u64 total[CHARGE_KINDS];
	AccountLimits limits;
};

static const char *const charge_names[CHARGE_KINDS] = {
	[CHARGE_CONNECTIONS] = "connections",
	[CHARGE_PRODUCERS] = "producers",
	[CHARGE_CLASSES] = "event classes",
	[CHARGE_MEMORY] = "ring memory",
};

static const char *const charge_keys[CHARGE_KINDS] = {
	[CHARGE_CONNECTIONS] = NULL, /* not configurable */
	[CHARGE_PRODUCERS] = "max_producers",
	[CHARGE_CLASSES] = "max_classes",
	[CHARGE_MEMORY] = "max_memory",
};

int account_new(Account **ret)
{
	Account *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	*ret = a;
	return 0;
}

Account *account_free(Account *a)
{
	if (!a)
		return NULL;
	for (size_t i = 0; i < ACCOUNT_BUCKETS; i++) {
		for (User *u = a->users[i], *next; u; u = next) {
			next = u->next;
			free(u);
		}
	}
	free(a);
	return NULL;
}

void account_set_limits(Account *a, const AccountLimits *limits)
{
	a->limits = *limits;
}

const AccountLimits *account_limits(const Account *a)
{
	return &a->limits;
}

static User *account_find(const Account *a, uid_t uid)
{
	User *u = a->users[uid % ACCOUNT_BUCKETS];

	while (u && u->uid != uid)
		u = u->next;
	return u;
}

static User *account_get(Account *a, uid_t uid)
{
	User *u = account_find(a, uid);

	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->next = a->users[uid % ACCOUNT_BUCKETS];
	a->users[uid % ACCOUNT_BUCKETS] = u;
	a->n_users++;
	return u;
}

static bool user_idle(const User *u)
{
	for (size_t i = 0; i < CHARGE_KINDS; i++)
		if (u->held[i])
			return false;
	return true;
}

static void charge_format(Charge kind, u64 n, char ret[32])
{
	if (kind == CHARGE_MEMORY)
		format_size(n, ret);
	else
		(void)snprintf(ret, 32, "%llu", (unsigned long long)n);
}

static int account_refuse(Failure *f, const char *who, Charge kind, u64 held, u64 n, u64 limit,
			  bool per_user)
{
	char h[32], w[32], l[32], advice[80] = "";

	charge_format(kind, held, h);
	charge_format(kind, n, w);
	charge_format(kind, limit, l);
	if (charge_keys[kind])
		(void)snprintf(advice, sizeof(advice), "; daemon.%s%s in tracer.conf sets it",
			       charge_keys[kind], per_user ? "_per_user" : "");
	return failure_set(f, FAILURE_LIMIT, "%s has %s of %s %s and wants %s more%s", who, h, l,
			   charge_names[kind], w, advice);
}

int account_charge(Account *a, uid_t uid, Charge kind, u64 n, Failure *f)
{
	u64 total = a->limits.total[kind], per_user = a->limits.per_user[kind];
	char who[32];
	User *u;

	if (n == 0)
		return 0;
	u = account_get(a, uid);
	if (!u)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	/* written as differences, so that no sum can wrap */
	if (per_user && (u->held[kind] > per_user || n > per_user - u->held[kind])) {
		(void)snprintf(who, sizeof(who), "user %u", (unsigned)uid);
		return account_refuse(f, who, kind, u->held[kind], n, per_user, true);
	}
	if (total && (a->total[kind] > total || n > total - a->total[kind]))
		return account_refuse(f, "the daemon", kind, a->total[kind], n, total, false);
	u->held[kind] += n;
	a->total[kind] += n;
	return 0;
}

int account_adopt(Account *a, uid_t uid, Charge kind, u64 n)
{
	User *u = n ? account_get(a, uid) : NULL;

	if (n && !u)
		return -ENOMEM;
	if (u) {
		u->held[kind] += n;
		a->total[kind] += n;
	}
	return 0;
}

void account_release(Account *a, uid_t uid, Charge kind, u64 n)
{
	User *u = account_find(a, uid);

	if (n == 0 || !u)
		return;
	u->held[kind] -= MIN(n, u->held[kind]);
	a->total[kind] -= MIN(n, a->total[kind]);
}

u64 account_total(const Account *a, Charge kind)
{
	return a->total[kind];
}

u64 account_of(const Account *a, uid_t uid, Charge kind)
{
	const User *u = account_find(a, uid);

	return u ? u->held[kind] : 0;
}

bool account_may_log(Account *a, uid_t uid, u64 now_ns, u64 *ret_swallowed)
{
	User *u = account_find(a, uid);

	if (!u) {
		/* a flood of fresh uids gets no line rather than our memory */
		if (a->n_users >= ACCOUNT_MAX_IDLE)
			return false;
		u = account_get(a, uid);
		if (!u)
			return false;
	}
	if (u->log_until > now_ns) {
		u->swallowed++;
		return false;
	}
	*ret_swallowed = u->swallowed;
	u->swallowed = 0;
	u->log_until = now_ns + ACCOUNT_LOG_GAP;
	return true;
}

static u64 user_debt(const User *u, u64 now_ns)
{
	u64 paid = now_ns > u->debt_at ? (now_ns - u->debt_at) / ACCOUNT_SHARE : 0;

	return u->debt - MIN(paid, u->debt);
}

void account_spend(Account *a, uid_t uid, u64 now_ns, u64 spent_ns)
{
	User *u = account_find(a, uid);

	/* unknown: it holds nothing any more, so nothing of it stands in anybody's way */
	if (!u)
		return;
	/* bounded, so that a user is not out for minutes after one bad moment */
	u->debt = MIN(user_debt(u, now_ns) + MIN(spent_ns, NSEC_PER_SEC), 2 * ACCOUNT_BURST);
	u->debt_at = now_ns;
}

bool account_overdrawn(const Account *a, uid_t uid, u64 now_ns)
{
	const User *u = account_find(a, uid);

	return u && user_debt(u, now_ns) > ACCOUNT_BURST;
}

void account_sweep(Account *a, u64 now_ns)
{
	for (size_t i = 0; i < ACCOUNT_BUCKETS; i++) {
		for (User **p = &a->users[i]; *p;) {
			User *u = *p;

			if (user_idle(u) && u->log_until <= now_ns && user_debt(u, now_ns) == 0) {
				*p = u->next;
				free(u);
				a->n_users--;
			} else {
				p = &u->next;
			}
		}
	}
}

u32 account_n_users(const Account *a)
{
	return a->n_users;
}

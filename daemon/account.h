/* SPDX-License-Identifier: MIT */
/* What each user holds of the daemon: connections, producers, event classes, ring memory. Everything a
 * peer can make us keep is charged to its uid before it is kept, so that no local user can exhaust the
 * daemon or push another out. */
#pragma once

#include <sys/types.h>

#include "daemon/failure.h"

typedef enum {
	CHARGE_CONNECTIONS,
	CHARGE_PRODUCERS,
	CHARGE_CLASSES,
	CHARGE_MEMORY,
	CHARGE_KINDS,
} Charge;

/* 0: no limit. */
typedef struct {
	u64 total[CHARGE_KINDS];
	u64 per_user[CHARGE_KINDS];
} AccountLimits;

typedef struct Account Account;

int account_new(Account **ret);
Account *account_free(Account *a);
DEFINE_CLEANUP(Account *, account_free)

void account_set_limits(Account *a, const AccountLimits *limits);
const AccountLimits *account_limits(const Account *a);

/* Charges n of a kind to a user, or nothing: FAILURE_LIMIT (-EDQUOT; the text has the numbers), -ENOMEM. A
 * limit that was lowered below what is held refuses what is new and takes nothing away. */
int account_charge(Account *a, uid_t uid, Charge kind, u64 n, Failure *f);
/* Whatever the limits say: it is held already, from before they were what they are. 0 or -ENOMEM. */
int account_adopt(Account *a, uid_t uid, Charge kind, u64 n);
void account_release(Account *a, uid_t uid, Charge kind, u64 n);

u64 account_total(const Account *a, Charge kind);
u64 account_of(const Account *a, uid_t uid, Charge kind);

/* True if something about this user may be logged now (one line in ten seconds); then *ret_swallowed says how many were
 * not since the last. */
bool account_may_log(Account *a, uid_t uid, u64 now_ns, u64 *ret_swallowed);
/* The loop's time that a user's programs took. A tenth of it is anybody's, and a burst beyond; who took more stands behind
 * the others until that is made good, so that nobody's floods or huge requests cost another user its answer. */
void account_spend(Account *a, uid_t uid, u64 now_ns, u64 spent_ns);
bool account_overdrawn(const Account *a, uid_t uid, u64 now_ns);
/* Forgets users that hold nothing and were silent for a while; from a timer. */
void account_sweep(Account *a, u64 now_ns);
u32 account_n_users(const Account *a);

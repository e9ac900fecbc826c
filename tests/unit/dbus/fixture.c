/* SPDX-License-Identifier: MIT */
/* The peer with the manager of the unit tests. */
#include "tests/unit/dbus/peer.h"

Peer *peer_new(void)
{
	sd_event *event;

	g_assert_cmpint(sd_event_new(&event), >=, 0);
	return peer_new_with(event, fake_manager_new());
}

void fixture_set_up(Fixture *f, const void *unused)
{
	f->p = peer_new();
}

void fixture_tear_down(Fixture *f, const void *unused)
{
	peer_settle(f->p);
	peer_free(f->p);
}

/* SPDX-License-Identifier: MIT */
#include "dbus/credentials.h"

#include <grp.h>
#include <pwd.h>

/* The group's id. 0, or -ENOENT if the system has no such group. */
static int group_id(const char *name, gid_t *ret)
{
	struct group group, *found = NULL;
	_cleanup_free_ char *buffer = NULL;
	size_t size = 4096;
	int r;

	do {
		char *larger = realloc(buffer, size *= 2);

		if (!larger)
			return -ENOMEM;
		buffer = larger;
		r = getgrnam_r(name, &group, buffer, size, &found);
	} while (r == ERANGE && size < 1024 * 1024);
	if (!found)
		return r > 0 ? -r : -ENOENT;
	*ret = group.gr_gid;
	return 0;
}

/* For a bus that does not tell the groups of its clients (before D-Bus 1.15): what the user database says. */
static bool user_in_group(uid_t uid, gid_t group)
{
	struct passwd entry, *found = NULL;
	char buffer[4096];
	gid_t gids[256];
	int n = ELEMENTSOF(gids);

	if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) != 0 || !found)
		return false;
	if (getgrouplist(found->pw_name, found->pw_gid, gids, &n) < 0)
		return false;
	for (int i = 0; i < n; i++)
		if (gids[i] == group)
			return true;
	return false;
}

int credentials_read(sd_bus_message *reply, const char *group_name, uid_t *ret_uid, bool *ret_in_group)
{
	bool have_uid = false, have_groups = false;
	gid_t group = 0;
	bool group_exists = group_id(group_name, &group) >= 0;
	const char *key;
	int r;

	*ret_in_group = false;
	r = sd_bus_message_enter_container(reply, 'a', "{sv}");
	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(reply, 'e', "sv")) > 0) {
		r = sd_bus_message_read(reply, "s", &key);
		if (r < 0)
			return r;
		if (strcmp(key, "UnixUserID") == 0) {
			u32 uid;

			r = sd_bus_message_read(reply, "v", "u", &uid);
			*ret_uid = uid;
			have_uid = r >= 0;
		} else if (strcmp(key, "UnixGroupIDs") == 0) {
			const u32 *gids = NULL;
			size_t n = 0;

			r = sd_bus_message_enter_container(reply, 'v', "au");
			if (r >= 0)
				r = sd_bus_message_read_array(reply, 'u', (const void **)&gids, &n);
			if (r >= 0)
				r = sd_bus_message_exit_container(reply);
			for (size_t i = 0; r >= 0 && i < n / sizeof(*gids); i++)
				*ret_in_group |= group_exists && gids[i] == group;
			have_groups = true;
		} else {
			r = sd_bus_message_skip(reply, "v");
		}
		if (r < 0)
			return r;
		r = sd_bus_message_exit_container(reply);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (!have_uid)
		return -ENODATA;
	if (!have_groups && group_exists)
		*ret_in_group = user_in_group(*ret_uid, group);
	return 0;
}

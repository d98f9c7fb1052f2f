using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <content>Whom a player follows, and which groups they are in.</content>
    public sealed partial class ScoregateClient
    {
        /// <summary>List the players that this player follows.</summary>
        public Task<FriendList> Friends(CancellationToken cancel = default(CancellationToken)) =>
            Get("/v1/friends", item => new FriendList(item), cancel, asPlayer: true);

        /// <summary>Follow a player. Safe to repeat.</summary>
        public Task<Following> Follow(string player, CancellationToken cancel = default(CancellationToken)) =>
            Turn("PUT", player, cancel);

        /// <summary>Unfollow a player. Safe to repeat.</summary>
        public Task<Following> Unfollow(string player, CancellationToken cancel = default(CancellationToken)) =>
            Turn("DELETE", player, cancel);

        /// <summary>Declare which group of a segment this player is in; null for none. Safe to repeat.</summary>
        public async Task<Memberships> SetMembership(
            string board, string segment, string group, CancellationToken cancel = default(CancellationToken))
        {
            var path = BoardPath(board) + "/memberships/" + Query.Segment(segment);
            var request = connection.AsPlayer(connection.Request("PUT", path));
            var json = await connection.Call(request, new JsonObject().Add("value", group).Build(), cancel);
            return Connection.Read(json, item => new Memberships(item));
        }

        private async Task<Following> Turn(string method, string player, CancellationToken cancel)
        {
            var request = connection.AsPlayer(connection.Request(method, "/v1/friends/" + Query.Segment(player)));
            return Connection.Read(await connection.Call(request, cancel), item => new Following(item));
        }
    }
}

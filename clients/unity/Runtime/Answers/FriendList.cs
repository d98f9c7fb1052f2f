using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>The players that a player follows.</summary>
    public sealed class FriendList : Document
    {
        internal FriendList(JsonValue json) : base(json)
        {
            Player = json["player"].AsText();
            Total = json["total"].AsLong();
            Friends = ListOf(json["friends"], item => new Friend(item));
        }

        /// <summary>Who follows them.</summary>
        public string Player { get; }

        /// <summary>Their number.</summary>
        public long Total { get; }

        /// <summary>They, in order of their ids.</summary>
        public IReadOnlyList<Friend> Friends { get; }
    }
}

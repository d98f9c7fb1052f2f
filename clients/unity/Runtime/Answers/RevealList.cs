using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>The recordings that a player is asked to send.</summary>
    public sealed class RevealList : Document
    {
        internal RevealList(JsonValue json) : base(json)
        {
            Reveals = ListOf(json["reveals"], item => new Reveal(item));
        }

        /// <summary>Up to 100, the next deadline first.</summary>
        public IReadOnlyList<Reveal> Reveals { get; }
    }
}

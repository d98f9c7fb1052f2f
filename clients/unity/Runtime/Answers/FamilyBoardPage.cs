using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A page of a family's boards. A filtered one may be short, or empty, and still have a next.</summary>
    public sealed class FamilyBoardPage : Document
    {
        internal FamilyBoardPage(JsonValue json) : base(json)
        {
            Boards = ListOf(json["boards"], item => new FamilyBoard(item));
            Next = json["next"].AsTextOrNull();
        }

        /// <summary>The boards.</summary>
        public IReadOnlyList<FamilyBoard> Boards { get; }

        /// <summary>The cursor of the next page, null after the last.</summary>
        public string Next { get; }
    }
}

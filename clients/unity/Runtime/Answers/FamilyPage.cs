using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A page of the families.</summary>
    public sealed class FamilyPage : Document
    {
        internal FamilyPage(JsonValue json) : base(json)
        {
            Families = ListOf(json["families"], item => new Family(item));
            Next = json["next"].AsTextOrNull();
        }

        /// <summary>The families.</summary>
        public IReadOnlyList<Family> Families { get; }

        /// <summary>The cursor of the next page, null after the last.</summary>
        public string Next { get; }
    }
}
